"""Drives a switch with p4runtime-shell. Arguments: ADDRESS P4INFO JSON."""

import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

from frames import ethernet, ipv4_udp

CPU = 510
PATIENCE = 10.0
# Long enough for what is there to be read, short enough for a test.
MOMENT = 1.0
HOST = "02:00:00:00:00:01"
OTHER = "02:00:00:00:00:02"
SOURCE = "02:00:00:00:00:99"


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def number(data):
    return int.from_bytes(data, "big")


def refused(function, code):
    """`code` is a number of google.rpc.Code."""
    try:
        function()
    except P4RuntimeWriteException as error:
        expect("codes", [e.canonical_code for _, e in error.errors], [code])
        return
    raise AssertionError(f"accepted, wanted code {code}")


INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS = 3, 5, 6


def host(dst, action="host_forward", **params):
    entry = sh.TableEntry("host")(action=action)
    entry.match["dst"] = dst
    for name, value in params.items():
        entry.action[name] = str(value)
    return entry


def fields(entry):
    """Match fields of an entry as messages, by the order of their ids."""
    return sorted(entry.msg().match, key=lambda m: m.field_id)


def exact():
    entry = host(HOST, port=3)
    entry.insert()
    refused(entry.insert, ALREADY_EXISTS)
    got = list(sh.TableEntry("host").read())
    expect("entries", [fields(e)[0].exact.value.hex() for e in got], ["020000000001"])
    expect("port", [number(e.msg().action.action.params[0].value) for e in got], [3])
    entry.action["port"] = "4"
    entry.modify()
    got = list(sh.TableEntry("host").read())
    expect("modified", [number(e.msg().action.action.params[0].value) for e in got], [4])
    refused(host(OTHER, port=1).modify, NOT_FOUND)
    entry.delete()
    expect("deleted", list(sh.TableEntry("host").read()), [])
    refused(entry.delete, NOT_FOUND)


def lpm():
    entries = []
    for prefix, port in [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.2.3/32", 3)]:
        entry = sh.TableEntry("route")(action="route_to")
        entry.match["dst"] = prefix
        entry.action["port"] = str(port)
        entry.action["next_hop"] = OTHER
        entry.insert()
        entries.append(entry)
    got = list(sh.TableEntry("route").read())
    expect("prefixes", sorted(fields(e)[0].lpm.prefix_len for e in got), [8, 16, 32])
    for entry in entries:
        entry.delete()


def ternary_range_optional():
    entry = sh.TableEntry("filter")(action="deny")
    entry.match["src"] = "10.0.0.0 &&& 255.0.0.255"
    entry.match["protocol"] = "17"
    entry.match["port"] = "1000..2000"
    entry.priority = 20
    entry.insert()
    got = list(sh.TableEntry("filter").read())
    expect("entries", len(got), 1)
    src, protocol, port = fields(got[0])
    expect("ternary", (number(src.ternary.value), number(src.ternary.mask)), (0x0A000000, 0xFF0000FF))
    expect("optional", number(protocol.optional.value), 17)
    expect("range", (number(port.range.low), number(port.range.high)), (1000, 2000))
    expect("priority", got[0].priority, 20)
    entry.delete()
    entry.priority = 0
    refused(entry.insert, INVALID_ARGUMENT)


def default_action():
    def read():
        default = sh.TableEntry("route")
        default.is_default = True
        return [e.action.action_name for e in default.read()]

    expect("initial", read(), ["Forwarding.no_route"])
    entry = sh.TableEntry("route")(action="route_drop", is_default=True)
    entry.modify()
    expect("set", read(), ["Forwarding.route_drop"])
    reset = sh.TableEntry("route")(is_default=True)
    reset.modify()
    expect("reset", read(), ["Forwarding.no_route"])


def profiles():
    entry = sh.TableEntry("balance")
    entry.match["src"] = SOURCE
    entry.oneshot = sh.Oneshot("balance")
    for port, weight in [(1, 2), (2, 1)]:
        action = sh.Action("forward")
        action["port"] = str(port)
        entry.oneshot.add(action, weight=weight)
    entry.insert()
    got = list(sh.TableEntry("balance").read())
    expect("one shot",
           [sorted((number(a.action.params[0].value), a.weight)
                   for a in e.msg().action.action_profile_action_set.action_profile_actions)
            for e in got], [[(1, 2), (2, 1)]])
    entry.delete()
    members = []
    for port in (1, 2):
        member = sh.ActionProfileMember("paths")(member_id=port, action="forward")
        member.action["port"] = str(port)
        member.insert()
        members.append(member)
    group = sh.ActionProfileGroup("paths")(group_id=7, max_size=4)
    group.add(1, 1).add(2, 2)
    group.insert()
    by_group = sh.TableEntry("balance")(group_id=7)
    by_group.match["src"] = SOURCE
    by_group.insert()
    got = list(sh.ActionProfileGroup("paths").read())
    expect("groups", [(g.group_id, sorted((m.member_id, m.weight) for m in g.members)) for g in got],
           [(7, [(1, 1), (2, 2)])])
    expect("by group", [e.group_id for e in sh.TableEntry("balance").read()], [7])
    by_group.delete()
    group.delete()
    for member in members:
        member.delete()


class Inbox:
    """Waits for a number of messages of one kind."""

    def __init__(self, reader):
        self.reader = reader

    def take(self, what, count=1):
        got = []
        waited = 0.0
        while len(got) < count and waited < PATIENCE:
            got += list(self.reader.sniff(timeout=MOMENT))
            waited += MOMENT
        expect(f"{what}: how many", len(got), count)
        return got


def metadata(packet):
    return {m.metadata_id: number(m.value) for m in packet.packet.metadata}


def send(frame, egress_port=0, through=1):
    sh.PacketOut(frame, egress_port=str(egress_port), through=str(through)).send()


def digests(inbox):
    entry = sh.DigestEntry("seen_t")
    entry.max_list_size = 1
    entry.insert()
    expect("read", [(d.max_list_size, d.max_timeout_ns) for d in sh.DigestEntry("seen_t").read()], [(1, 0)])
    send(ethernet(OTHER, "02:00:00:00:0a:01", 0x88B5, b"digest"))
    digest = inbox.take("digest")[0].digest
    expect("digest", [[number(m.bitstring) for m in d.struct.members] for d in digest.data],
           [[0x020000000A01, CPU]])
    entry.delete()


def packets(inbox):
    frame = ethernet(HOST, SOURCE, 0x88B5, b"to the controller")
    entry = host(HOST, "host_to_controller")
    entry.insert()
    send(frame)
    packet = inbox.take("packet-in")[0]
    expect("payload", packet.packet.payload, frame)
    expect("metadata", metadata(packet), {1: CPU, 2: 0})
    direct = sh.DirectCounterEntry("host_hits")
    direct.table_entry.match["dst"] = HOST
    # bmv2 counts the controller's header too: 2 bytes.
    expect("direct", [(c.packet_count, c.byte_count) for c in direct.read()], [(1, len(frame) + 2)])
    cell = sh.CounterEntry("by_port")(index=CPU)
    cell.packet_count = 0
    cell.byte_count = 0
    cell.modify()
    send(frame, CPU, 0)
    expect("straight", inbox.take("straight")[0].packet.payload, frame)
    expect("counter", [(c.packet_count, c.byte_count) for c in sh.CounterEntry("by_port")(index=CPU).read()],
           [(1, len(frame) + 2)])
    expect("all cells", len(list(sh.CounterEntry("by_port").read())), 512)
    entry.delete()


def rewriting(inbox):
    entry = sh.TableEntry("route")(action="route_to")
    entry.match["dst"] = "10.0.0.0/8"
    entry.action["port"] = str(CPU)
    entry.action["next_hop"] = OTHER
    entry.insert()
    send(ethernet(HOST, SOURCE, 0x0800, ipv4_udp("192.0.2.1", "10.9.8.7", 4000, 53, ttl=9)))
    wanted = ethernet(OTHER, HOST, 0x0800, ipv4_udp("192.0.2.1", "10.9.8.7", 4000, 53, ttl=8))
    expect("routed", inbox.take("routed")[0].packet.payload.hex(), wanted.hex())
    entry.delete()


def idle(inbox):
    entry = host(OTHER, "host_miss")
    entry.idle_timeout_ns = 500_000_000
    entry.insert()
    notice = inbox.take("idle notice")[0].idle_timeout_notification
    expect("idle", [e.match[0].exact.value.hex() for e in notice.table_entry], ["020000000002"])
    entry.delete()


def replication(inbox):
    clone = sh.CloneSessionEntry(5)
    clone.add(CPU, 0)
    clone.insert()
    group = sh.MulticastGroupEntry(9)
    group.add(CPU, 1).add(CPU, 2)
    group.insert()
    got = list(sh.MulticastGroupEntry(9).read())
    expect("group", [sorted((r.egress_port, r.instance) for r in g.replicas) for g in got],
           [[(CPU, 1), (CPU, 2)]])
    mirror, broadcast = host(HOST, "host_mirror", port=1), host(OTHER, "host_broadcast", group=9)
    mirror.insert()
    broadcast.insert()
    send(ethernet(HOST, SOURCE, 0x88B5, b"mirror"))
    expect("clone", metadata(inbox.take("clone")[0]), {1: CPU, 2: 1})
    frame = ethernet(OTHER, SOURCE, 0x88B5, b"broadcast")
    send(frame)
    for packet in inbox.take("replicas", 2):
        expect("replica", (packet.packet.payload, metadata(packet)), (frame, {1: CPU, 2: 5}))
    for entry in (mirror, broadcast, clone, group):
        entry.delete()


def meters():
    entry = sh.MeterEntry("rate")(index=2)
    entry.cir, entry.cburst, entry.pir, entry.pburst = 1000, 100, 2000, 200
    entry.modify()
    got = list(sh.MeterEntry("rate")(index=2).read())
    expect("meter", [(m.cir, m.cburst, m.pir, m.pburst) for m in got], [(1000, 100, 2000, 200)])




def main():
    address, p4info, binary = sys.argv[1:4]
    sh.setup(device_id=1, grpc_addr=address, election_id=(0, 5),
             config=sh.FwdPipeConfig(p4info, binary), verbose=False)
    failed = True
    try:
        packet_in, digest, timeout = (Inbox(reader()) for reader in
                                      (sh.PacketIn, sh.DigestList, sh.IdleTimeoutNotification))
        expect("API", sh.APIVersion() != "", True)
        checks = [(exact,), (lpm,), (ternary_range_optional,), (default_action,), (profiles,),
                  (digests, digest), (packets, packet_in), (rewriting, packet_in),
                  (idle, timeout), (replication, packet_in), (meters,)]
        for check, *arguments in checks:
            try:
                check(*arguments)
            except Exception as error:
                print(f"FAILED {check.__name__}: {type(error).__name__}: {error}", flush=True)
                raise
            print(f"ok {check.__name__}", flush=True)
        failed = False
    finally:
        sh.teardown()
    if not failed:
        print("all passed", flush=True)


main()
