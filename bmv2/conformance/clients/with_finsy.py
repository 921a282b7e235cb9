"""Drives a switch with finsy. Arguments: ADDRESS P4INFO JSON."""

import asyncio
import sys
from pathlib import Path

import finsy as fy
from finsy import P4ClientError

from frames import ethernet, ipv4_udp, mac

CPU = 510
PATIENCE = 10.0
HOST = "02:00:00:00:00:01"
OTHER = "02:00:00:00:00:02"
SOURCE = "02:00:00:00:00:99"


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


async def collect(entities):
    return [entity async for entity in entities]


async def refused(coroutine, code):
    try:
        await coroutine
    except P4ClientError as error:
        codes = [error.code.name] + [e.canonical_code.name for e in error.details.values()]
        if code not in codes:
            raise AssertionError(f"refused with {codes}, wanted {code}") from error
        return
    raise AssertionError(f"accepted, wanted {code}")


def host(dst, action=None, **more):
    return fy.P4TableEntry("host", match=fy.P4TableMatch(dst=dst), action=action, **more)


async def pipeline(sw):
    expect("tables", sorted(t.alias for t in sw.p4info.tables),
           ["balance", "filter", "host", "known", "marking", "route"])
    version = sw.p4runtime_version
    if (version.major, version.minor) < (1, 3):
        raise AssertionError(f"P4Runtime {version}")


async def exact(sw):
    forward = fy.P4TableAction("host_forward", port=3)
    await sw.write([+host(HOST, forward)])
    await refused(sw.write([+host(HOST, forward)]), "ALREADY_EXISTS")
    got = await collect(sw.read(fy.P4TableEntry("host")))
    expect("entries", [(e.match, e.action) for e in got], [({"dst": int(mac(HOST).hex(), 16)}, forward)])
    await sw.write([~host(HOST, fy.P4TableAction("host_forward", port=4))])
    got = await collect(sw.read(host(HOST)))
    expect("modified", [e.action.args for e in got], [{"port": 4}])
    await refused(sw.write([~host(OTHER, forward)]), "NOT_FOUND")
    await sw.write([-host(HOST)])
    expect("deleted", await collect(sw.read(fy.P4TableEntry("host"))), [])
    await refused(sw.write([-host(HOST)]), "NOT_FOUND")


async def lpm(sw):
    def entry(prefix, port):
        return fy.P4TableEntry(
            "route",
            match=fy.P4TableMatch(dst=prefix),
            action=fy.P4TableAction("route_to", port=port, next_hop=OTHER),
        )

    await sw.write([+entry("10.0.0.0/8", 1), +entry("10.1.0.0/16", 2), +entry("10.1.2.3/32", 3)])
    got = await collect(sw.read(fy.P4TableEntry("route")))
    expect("prefixes", sorted((e["dst"][1], e.action.args["port"]) for e in got),
           [(8, 1), (16, 2), (32, 3)])
    await sw.delete_many([fy.P4TableEntry("route")])
    expect("empty", await collect(sw.read(fy.P4TableEntry("route"))), [])


async def ternary_range_optional(sw):
    first = fy.P4TableEntry(
        "filter",
        match=fy.P4TableMatch(src="10.0.0.0/&255.0.0.255", protocol=17, port="1000...2000"),
        priority=20,
        action=fy.P4TableAction("deny"),
    )
    second = fy.P4TableEntry("filter", match=fy.P4TableMatch(protocol=6), priority=10,
                             action=fy.P4TableAction("permit"))
    await sw.insert([first, second])
    got = await collect(sw.read(fy.P4TableEntry("filter")))
    by_priority = {e.priority: e.match for e in got}
    expect("matches", by_priority, {
        20: {"src": (0x0A000000, 0xFF0000FF), "protocol": 17, "port": (1000, 2000)},
        10: {"protocol": 6},
    })
    first.priority = 0
    await refused(sw.insert([first]), "INVALID_ARGUMENT")
    await sw.delete_many([fy.P4TableEntry("filter")])


async def default_action(sw):
    default = fy.P4TableEntry("route", is_default_action=True)
    expect("initial", [e.action.name for e in await collect(sw.read(default))], ["no_route"])
    await sw.write([~fy.P4TableEntry("route", is_default_action=True,
                                     action=fy.P4TableAction("route_drop"))])
    expect("set", [e.action.name for e in await collect(sw.read(default))], ["route_drop"])
    await sw.modify([default])
    expect("reset", [e.action.name for e in await collect(sw.read(default))], ["no_route"])


async def profiles(sw):
    one_shot = fy.P4IndirectAction([(2, fy.P4TableAction("forward", port=1)),
                                    (1, fy.P4TableAction("forward", port=2))])
    entry = fy.P4TableEntry("balance", match=fy.P4TableMatch(src=SOURCE), action=one_shot)
    await sw.insert([entry])
    got = await collect(sw.read(fy.P4TableEntry("balance")))
    expect("one shot", [sorted((w, a.args["port"]) for w, a in e.action.action_set) for e in got],
           [[(1, 2), (2, 1)]])
    await sw.delete([entry])
    members = [fy.P4ActionProfileMember("paths", member_id=n, action=fy.P4TableAction("forward", port=n))
               for n in (1, 2)]
    group = fy.P4ActionProfileGroup("paths", group_id=7, max_size=4,
                                    members=[fy.P4Member(1, weight=1), fy.P4Member(2, weight=2)])
    await sw.insert(members)
    await sw.insert([group])
    by_group = fy.P4TableEntry("balance", match=fy.P4TableMatch(src=SOURCE),
                               action=fy.P4IndirectAction(group_id=7))
    await sw.insert([by_group])
    got = await collect(sw.read(fy.P4ActionProfileGroup("paths")))
    expect("groups", [(g.group_id, sorted((m.member_id, m.weight) for m in g.members)) for g in got],
           [(7, [(1, 1), (2, 2)])])
    got = await collect(sw.read(fy.P4TableEntry("balance")))
    expect("by group", [e.action.group_id for e in got], [7])
    await sw.delete([by_group])
    await sw.delete([group])
    await sw.delete(members)


async def packets(sw):
    """What goes out through the tables comes back by the controller's port."""
    inbox = sw.read_packets()
    waiting = asyncio.create_task(anext(inbox))
    await asyncio.sleep(0)
    frame = ethernet(HOST, SOURCE, 0x88B5, b"to the controller")
    await sw.write([+host(HOST, fy.P4TableAction("host_to_controller"))])
    await sw.write([fy.P4PacketOut(frame, egress_port=0, through=1)])
    packet = await asyncio.wait_for(waiting, PATIENCE)
    expect("payload", packet.payload, frame)
    expect("metadata", packet.metadata, {"ingress_port": CPU, "reason": 0})

    # Counters of the entry, of its table and of the port it came by.
    got = await collect(sw.read(fy.P4DirectCounterEntry("host_hits", table_entry=host(HOST))))
    expect("direct counter", [c.data.packet_count for c in got], [1])
    # bmv2 counts the controller's header too: 2 bytes.
    expect("direct bytes", [c.data.byte_count for c in got], [len(frame) + 2])
    got = await collect(sw.read(fy.P4CounterEntry("by_port", index=CPU)))
    expect("counter", [c.data.packet_count >= 1 for c in got], [True])
    await sw.write([~fy.P4CounterEntry("by_port", index=CPU,
                                       data=fy.P4CounterData(byte_count=0, packet_count=0))])
    await sw.write([fy.P4PacketOut(frame, egress_port=0, through=1)])
    await asyncio.wait_for(anext(inbox), PATIENCE)
    got = await collect(sw.read(fy.P4CounterEntry("by_port", index=CPU)))
    expect("counter anew", [(c.data.packet_count, c.data.byte_count) for c in got],
           [(1, len(frame) + 2)])
    expect("all cells", len(await collect(sw.read(fy.P4CounterEntry("by_port")))), 512)

    # A packet-out that goes straight to a port.
    await sw.write([fy.P4PacketOut(frame, egress_port=CPU, through=0)])
    packet = await asyncio.wait_for(anext(inbox), PATIENCE)
    expect("straight", packet.payload, frame)
    await sw.write([-host(HOST)])
    await inbox.aclose()


async def rewriting(sw):
    """A routed packet has a new next hop, TTL and checksum."""
    inbox = sw.read_packets()
    waiting = asyncio.create_task(anext(inbox))
    await asyncio.sleep(0)
    entry = fy.P4TableEntry("route", match=fy.P4TableMatch(dst="10.0.0.0/8"),
                            action=fy.P4TableAction("route_to", port=CPU, next_hop=OTHER))
    await sw.insert([entry])
    sent = ethernet(HOST, SOURCE, 0x0800, ipv4_udp("192.0.2.1", "10.9.8.7", 4000, 53, ttl=9))
    await sw.write([fy.P4PacketOut(sent, egress_port=0, through=1)])
    packet = await asyncio.wait_for(waiting, PATIENCE)
    wanted = ethernet(OTHER, HOST, 0x0800, ipv4_udp("192.0.2.1", "10.9.8.7", 4000, 53, ttl=8))
    expect("routed", packet.payload.hex(), wanted.hex())
    await sw.delete([entry])
    await inbox.aclose()


async def digests(sw):
    inbox = sw.read_digests("seen_t")
    waiting = asyncio.create_task(anext(inbox))
    await asyncio.sleep(0)
    await sw.write([+fy.P4DigestEntry("seen_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=0)])
    frame = ethernet(OTHER, "02:00:00:00:0a:01", 0x88B5, b"digest")
    await sw.write([fy.P4PacketOut(frame, egress_port=0, through=1)])
    digest = await asyncio.wait_for(waiting, PATIENCE)
    expect("digest", digest.data, [{"mac": 0x020000000A01, "port": CPU}])
    await sw.write([digest.ack()])
    await sw.write([-fy.P4DigestEntry("seen_t")])
    await inbox.aclose()


async def idle(sw):
    inbox = sw.read_idle_timeouts()
    waiting = asyncio.create_task(anext(inbox))
    await asyncio.sleep(0)
    entry = host(OTHER, fy.P4TableAction("host_miss"), idle_timeout_ns=500_000_000)
    await sw.insert([entry])
    notice = await asyncio.wait_for(waiting, PATIENCE)
    expect("idle", [e.match for e in notice.table_entry], [{"dst": int(mac(OTHER).hex(), 16)}])
    await sw.write([-host(OTHER)])
    await inbox.aclose()


async def replication(sw):
    """A mirrored packet comes back as a clone, a broadcast one as replicas."""
    inbox = sw.read_packets()
    waiting = asyncio.create_task(anext(inbox))
    await asyncio.sleep(0)
    clone = fy.P4CloneSessionEntry(5, replicas=[CPU])
    group = fy.P4MulticastGroupEntry(9, replicas=[(CPU, 1), (CPU, 2)])
    await sw.insert([clone, group])
    expect("group", [sorted(r.instance for r in g.replicas)
                     for g in await collect(sw.read(fy.P4MulticastGroupEntry(9)))], [[1, 2]])
    await sw.write([+host(HOST, fy.P4TableAction("host_mirror", port=1)),
                    +host(OTHER, fy.P4TableAction("host_broadcast", group=9))])
    frame = ethernet(HOST, SOURCE, 0x88B5, b"mirror")
    await sw.write([fy.P4PacketOut(frame, egress_port=0, through=1)])
    packet = await asyncio.wait_for(waiting, PATIENCE)
    # The clone is made of what arrived: with the controller's header.
    expect("clone", packet.metadata, {"ingress_port": CPU, "reason": 1})
    frame = ethernet(OTHER, SOURCE, 0x88B5, b"broadcast")
    await sw.write([fy.P4PacketOut(frame, egress_port=0, through=1)])
    for _ in range(2):
        packet = await asyncio.wait_for(anext(inbox), PATIENCE)
        expect("replica", packet.payload, frame)
        expect("replica", packet.metadata, {"ingress_port": CPU, "reason": 5})
    await sw.delete([host(HOST), host(OTHER), clone, group])
    await inbox.aclose()


async def registers(sw):
    await sw.write([~fy.P4RegisterEntry("last_source", index=3, data=0xC0000201)])
    got = await collect(sw.read(fy.P4RegisterEntry("last_source", index=3)))
    expect("register", [r.data for r in got], [0xC0000201])
    expect("all", len(await collect(sw.read(fy.P4RegisterEntry("last_source")))), 16)


async def meters(sw):
    config = fy.P4MeterConfig(cir=1000, cburst=100, pir=2000, pburst=200)
    await sw.write([~fy.P4MeterEntry("rate", index=2, config=config)])
    got = await collect(sw.read(fy.P4MeterEntry("rate", index=2)))
    expect("meter", [m.config for m in got], [config])


CHECKS = [pipeline, exact, lpm, ternary_range_optional, default_action, profiles, digests,
          packets, rewriting, idle, replication, registers, meters]


async def main():
    address, p4info, p4blob = sys.argv[1:4]
    wanted = sys.argv[4:]
    options = fy.SwitchOptions(p4info=Path(p4info), p4blob=Path(p4blob), device_id=1, p4force=True)
    async with fy.Switch("switch", address, options) as sw:
        for check in CHECKS:
            if wanted and check.__name__ not in wanted:
                continue
            try:
                await check(sw)
            except Exception as error:
                print(f"FAILED {check.__name__}: {type(error).__name__}: {error}", flush=True)
                raise
            print(f"ok {check.__name__}", flush=True)
            await sw.delete_all()
    print("all passed", flush=True)


asyncio.run(main())
