//! What a gateway's configuration must hold as a whole.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{Gateway, PortRole, Server, Vip, limits};
use crate::problem::Problem;

/// Bytes that the tunnel to a load director adds: Ethernet 14, IPv4 20, UDP 8,
/// VXLAN 8.
const TUNNEL_OVERHEAD: u16 = 50;

/// Everything that is wrong with `gateway`, in the order of its file.
pub(super) fn problems(gateway: &Gateway) -> Vec<Problem> {
    let mut found = Vec::new();
    switch(gateway, &mut found);
    ports(gateway, &mut found);
    next_hops(gateway, &mut found);
    lds(gateway, &mut found);
    groups(gateway, &mut found);
    vips(gateway, &mut found);
    addresses(gateway, &mut found);
    found
}

fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_loopback()
        || address.octets()[0] == 0
        || address.octets()[0] >= 240)
}

fn need_host(place: String, address: Ipv4Addr, found: &mut Vec<Problem>) {
    if !is_host(address) {
        found.push(Problem::new(
            place,
            format!("{address} is no host's address"),
            "write a unicast address",
        ));
    }
}

fn need_vni(place: String, vni: u32, found: &mut Vec<Problem>) {
    if vni > limits::VNI_MAX {
        found.push(Problem::new(
            place,
            format!("{vni} has more than 24 bits"),
            format!("write a VNI up to {}", limits::VNI_MAX),
        ));
    }
}

/// Reports names that are empty or stand twice.
fn unique_names<'a>(kind: &str, names: impl Iterator<Item = &'a str>, found: &mut Vec<Problem>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() {
            found.push(Problem::new(
                format!("{kind}[{index}].name"),
                "is empty",
                "give it a name",
            ));
        } else if let Some(first) = seen.insert(name, index) {
            found.push(Problem::new(
                format!("{kind}[{index}].name"),
                format!("\"{name}\" is also the name of {kind}[{first}]"),
                "give each its own name",
            ));
        }
    }
}

fn switch(gateway: &Gateway, found: &mut Vec<Problem>) {
    need_host("switch.vtep".into(), gateway.switch.vtep, found);
}

fn ports(gateway: &Gateway, found: &mut Vec<Problem>) {
    unique_names("port", gateway.ports.iter().map(|p| p.name.as_str()), found);
    for (index, port) in gateway.ports.iter().enumerate() {
        let place = |field: &str| format!("port[{index}] \"{}\".{field}", port.name);
        if port.number > limits::SWITCH_PORT_MAX {
            found.push(Problem::new(
                place("number"),
                format!("{} is beyond the switch's ports", port.number),
                format!("write a number up to {}", limits::SWITCH_PORT_MAX),
            ));
        }
        need_host(place("address"), port.address.addr(), found);
        if port.address.prefix_len() < 31
            && (port.address.addr() == port.address.network()
                || port.address.addr() == port.address.broadcast())
        {
            found.push(Problem::new(
                place("address"),
                format!(
                    "{} is the prefix's network or broadcast address",
                    port.address
                ),
                "write the switch's own address on that link",
            ));
        }
        if port.vlan > limits::VLAN_MAX {
            found.push(Problem::new(
                place("vlan"),
                format!("{} is no VLAN id", port.vlan),
                format!("write 1 to {}, or 0 for untagged", limits::VLAN_MAX),
            ));
        }
        if port.mtu < 576 {
            found.push(Problem::new(
                place("mtu"),
                format!("{} bytes is less than every IPv4 link carries", port.mtu),
                "write at least 576",
            ));
        }
        need_vni(place("vni"), port.vni, found);
        for (other_index, other) in gateway.ports.iter().enumerate().take(index) {
            let other_place = format!("port[{other_index}] \"{}\"", other.name);
            if other.number == port.number && other.vlan == port.vlan {
                found.push(Problem::new(
                    place("number"),
                    format!(
                        "port {} with VLAN {} is also {other_place}",
                        port.number, port.vlan
                    ),
                    "give each its own number or VLAN",
                ));
            } else if other.number == port.number {
                // egress_port knows one tag per port.
                found.push(Problem::new(
                    place("number"),
                    format!(
                        "port {} is also {other_place} with another VLAN",
                        port.number
                    ),
                    "use one VLAN a port",
                ));
            }
            if other.vni == port.vni && overlap(&other.address.trunc(), &port.address.trunc()) {
                found.push(Problem::new(
                    place("address"),
                    format!(
                        "{} overlaps {} of {other_place}",
                        port.address, other.address
                    ),
                    "give each link its own prefix",
                ));
            }
        }
    }
}

fn overlap(a: &Ipv4Net, b: &Ipv4Net) -> bool {
    a.contains(b) || b.contains(a)
}

fn next_hops(gateway: &Gateway, found: &mut Vec<Problem>) {
    for (index, neighbor) in gateway.neighbors.iter().enumerate() {
        if !gateway
            .ports
            .iter()
            .any(|p| p.address.contains(&neighbor.address))
        {
            found.push(Problem::new(
                format!("neighbor[{index}].address"),
                format!("{} is on no port's link", neighbor.address),
                "correct it, or add the port",
            ));
        }
    }
    let mut seen = HashSet::new();
    for (index, route) in gateway.routes.iter().enumerate() {
        if route.prefix != route.prefix.trunc() {
            found.push(Problem::new(
                format!("route[{index}].prefix"),
                format!("{} has bits beyond its length", route.prefix),
                format!("write {}", route.prefix.trunc()),
            ));
        }
        if gateway.port_for(route.vni, route.via).is_none() {
            found.push(Problem::new(
                format!("route[{index}].via"),
                format!("{} is on no port's link", route.via),
                "name a next hop on a port's link, of the same vni",
            ));
        }
        need_vni(format!("route[{index}].vni"), route.vni, found);
        if !seen.insert((route.vni, route.prefix.trunc())) {
            found.push(Problem::new(
                format!("route[{index}].prefix"),
                format!("{} stands twice", route.prefix),
                "keep one of them",
            ));
        }
    }
}

fn lds(gateway: &Gateway, found: &mut Vec<Problem>) {
    unique_names("ld", gateway.lds.iter().map(|ld| ld.name.as_str()), found);
    for (index, ld) in gateway.lds.iter().enumerate() {
        let place = format!("ld[{index}] \"{}\".vtep", ld.name);
        need_host(place.clone(), ld.vtep, found);
        match gateway.next_hop(0, ld.vtep) {
            None => found.push(Problem::new(
                place,
                format!("no port or route leads to {}", ld.vtep),
                "add a port of role \"ld\" on its link, or a route",
            )),
            Some((_, port)) if port.role != PortRole::Ld => found.push(Problem::new(
                place,
                format!("{} is behind port \"{}\", whose role is not \"ld\"", ld.vtep, port.name),
                "packets from load directors are accepted on ports of role \"ld\" only; correct the role",
            )),
            Some((_, port)) => {
                let largest = gateway
                    .ports
                    .iter()
                    .filter(|p| p.role != PortRole::Ld)
                    .map(|p| p.mtu)
                    .max()
                    .unwrap_or(0);
                let needed = largest.saturating_add(TUNNEL_OVERHEAD);
                if port.mtu < needed {
                    found.push(Problem::new(
                        format!("port \"{}\".mtu", port.name),
                        format!(
                            "{} bytes do not carry the largest packet ({largest}) in the tunnel",
                            port.mtu
                        ),
                        format!("raise it to at least {needed}, here and on the link"),
                    ));
                }
            }
        }
    }
}

fn groups(gateway: &Gateway, found: &mut Vec<Problem>) {
    unique_names(
        "group",
        gateway.groups.iter().map(|g| g.name.as_str()),
        found,
    );
    let mut prefixes: Vec<(u32, Ipv4Net, String)> = Vec::new();
    let (mut slots, mut locals) = (0usize, 0usize);
    for (index, group) in gateway.groups.iter().enumerate() {
        let place = |field: &str| format!("group[{index}] \"{}\".{field}", group.name);
        if group.lds.is_empty() {
            found.push(Problem::new(
                place("lds"),
                "is empty",
                "name at least one ld",
            ));
        }
        let mut named = HashSet::new();
        for name in &group.lds {
            if !gateway.lds.iter().any(|ld| ld.name == *name) {
                found.push(Problem::new(
                    place("lds"),
                    format!("there is no ld \"{name}\""),
                    "correct the name, or add the ld",
                ));
            }
            if !named.insert(name) {
                found.push(Problem::new(
                    place("lds"),
                    format!("\"{name}\" stands twice"),
                    "name each ld once",
                ));
            }
        }
        need_vni(place("vni"), group.vni, found);
        let mut own = 0usize;
        for prefix in &group.lips {
            if *prefix != prefix.trunc() {
                found.push(Problem::new(
                    place("lips"),
                    format!("{prefix} has bits beyond its length"),
                    format!("write {}", prefix.trunc()),
                ));
            }
            own = own.saturating_add(1usize << (32 - u32::from(prefix.prefix_len())).min(31));
            need_host(place("lips"), prefix.addr(), found);
            for (vni, other, whose) in &prefixes {
                if *vni == group.vni && overlap(other, &prefix.trunc()) {
                    found.push(Problem::new(
                        place("lips"),
                        format!("{prefix} overlaps {other} of {whose}"),
                        "give each local address to one group, once",
                    ));
                }
            }
            prefixes.push((
                group.vni,
                prefix.trunc(),
                format!("group \"{}\"", group.name),
            ));
        }
        if group.slots == 0 || usize::from(group.slots) > limits::BUCKETS {
            found.push(Problem::new(
                place("slots"),
                format!("{} slots", group.slots),
                format!("write a number from 1 to {}", limits::BUCKETS),
            ));
        } else if own < usize::from(group.slots) {
            found.push(Problem::new(
                place("lips"),
                format!("{own} local addresses for {} slots", group.slots),
                "every slot needs one of its own: add addresses or lower slots",
            ));
        }
        slots += usize::from(group.slots);
        locals = locals.saturating_add(own);
    }
    for (what, have, limit) in [
        ("slots", slots, limits::SLOTS),
        ("local addresses", locals, limits::LOCALS),
    ] {
        if have > limit {
            found.push(Problem::new(
                "group",
                format!("{have} {what} in all groups, the switch holds {limit}"),
                "use fewer, or build the pipeline with larger tables",
            ));
        }
    }
}

fn vips(gateway: &Gateway, found: &mut Vec<Problem>) {
    unique_names("vip", gateway.vips.iter().map(|v| v.name.as_str()), found);
    for (index, vip) in gateway.vips.iter().enumerate() {
        let place = |field: &str| format!("vip[{index}] \"{}\".{field}", vip.name);
        need_host(place("address"), vip.address, found);
        need_vni(place("vni"), vip.vni, found);
        match gateway.groups.iter().find(|g| g.name == vip.group) {
            None => found.push(Problem::new(
                place("group"),
                format!("there is no group \"{}\"", vip.group),
                "correct the name, or add the group",
            )),
            Some(group) if group.vni != vip.vni => found.push(Problem::new(
                place("group"),
                format!(
                    "group \"{}\" has vni {}, the VIP {}",
                    group.name, group.vni, vip.vni
                ),
                "use a group of the same vni",
            )),
            Some(_) => {}
        }
        for (name, value) in [
            ("syn_ms", vip.timeouts.syn_ms),
            ("established_ms", vip.timeouts.established_ms),
            ("fin_ms", vip.timeouts.fin_ms),
            ("time_wait_ms", vip.timeouts.time_wait_ms),
            ("close_ms", vip.timeouts.close_ms),
            ("udp_ms", vip.timeouts.udp_ms),
        ] {
            // The slow path's clock ticks every 250 ms; a switch sweeps every
            // second.
            if value < 1000 {
                found.push(Problem::new(
                    place(&format!("timeouts.{name}")),
                    format!("{value} ms is shorter than a switch's sweep"),
                    "write at least 1000",
                ));
            }
        }
        for (other_index, other) in gateway.vips.iter().enumerate().take(index) {
            if other.vni == vip.vni
                && other.address == vip.address
                && other.protocol == vip.protocol
                && other.port.overlaps(vip.port)
            {
                found.push(Problem::new(
                    place("port"),
                    format!(
                        "{} port {} overlaps port {} of vip[{other_index}] \"{}\"",
                        vip.address, vip.port, other.port, other.name
                    ),
                    "a packet can belong to one VIP only: change address, protocol or ports",
                ));
            }
            if other.vni == vip.vni && other.address == vip.address && other.group != vip.group {
                found.push(Problem::new(
                    place("group"),
                    format!(
                        "{} is served by group \"{}\" for vip[{other_index}] \"{}\"",
                        vip.address, other.group, other.name
                    ),
                    "fragments and ICMP know no port: keep one group an address",
                ));
            }
        }
        unique_names(
            &format!("vip[{index}] \"{}\".server", vip.name),
            vip.servers.iter().map(|s| s.name.as_str()),
            found,
        );
        let mut seen = BTreeMap::new();
        for (server_index, server) in vip.servers.iter().enumerate() {
            let place = format!(
                "vip[{index}] \"{}\".server[{server_index}] \"{}\"",
                vip.name, server.name
            );
            one_server(gateway, vip, server, &place, found);
            if let Some(first) = seen.insert((server.address, server.port), server_index) {
                found.push(Problem::new(
                    place,
                    format!("has the address and port of server[{first}]"),
                    "name each server once; use weight for a larger share",
                ));
            }
        }
    }
    let servers: usize = gateway.vips.iter().map(|vip| vip.servers.len()).sum();
    for (what, have, limit) in [
        ("VIPs", gateway.vips.len(), limits::VIPS),
        ("servers", servers, limits::SERVERS),
    ] {
        // Id 0 is never used.
        if have >= limit {
            found.push(Problem::new(
                "vip",
                format!("{have} {what}, the switch holds {}", limit - 1),
                "use fewer, or build the pipeline with larger tables",
            ));
        }
    }
}

fn one_server(
    gateway: &Gateway,
    vip: &Vip,
    server: &Server,
    place: &str,
    found: &mut Vec<Problem>,
) {
    need_host(format!("{place}.address"), server.address, found);
    match server.port {
        Some(0) => found.push(Problem::new(
            format!("{place}.port"),
            "0 is no port",
            "write 1 to 65535, or leave it out to keep the client's port",
        )),
        Some(_) if !vip.port.is_single() => found.push(Problem::new(
            format!("{place}.port"),
            format!("the VIP has ports {}, so the port must be kept", vip.port),
            "leave the server's port out",
        )),
        _ => {}
    }
    match gateway.next_hop(vip.vni, server.address) {
        None => found.push(Problem::new(
            format!("{place}.address"),
            format!("no port or route leads to {}", server.address),
            "add the port or the route",
        )),
        Some((_, port)) if port.address.addr() == server.address => found.push(Problem::new(
            format!("{place}.address"),
            format!(
                "{} is the switch's own address on port \"{}\"",
                server.address, port.name
            ),
            "write the server's address",
        )),
        Some(_) => {}
    }
}

/// One address, one meaning: VIPs, local addresses, servers and the switch's
/// own addresses exclude each other.
fn addresses(gateway: &Gateway, found: &mut Vec<Problem>) {
    let own: Vec<(u32, Ipv4Addr, String)> = gateway
        .ports
        .iter()
        .map(|p| {
            (
                p.vni,
                p.address.addr(),
                format!("the switch's address on port \"{}\"", p.name),
            )
        })
        .chain([(0, gateway.switch.vtep, "the switch's VTEP".to_owned())])
        .chain(
            gateway
                .lds
                .iter()
                .map(|ld| (0, ld.vtep, format!("the VTEP of ld \"{}\"", ld.name))),
        )
        .collect();
    for (index, group) in gateway.groups.iter().enumerate() {
        let place = format!("group[{index}] \"{}\".lips", group.name);
        for prefix in &group.lips {
            let inside =
                |vni: u32, address: Ipv4Addr| vni == group.vni && prefix.contains(&address);
            for (vni, address, whose) in &own {
                if inside(*vni, *address) {
                    found.push(Problem::new(
                        place.clone(),
                        format!("{prefix} contains {address}, {whose}"),
                        "use addresses that nothing else has",
                    ));
                }
            }
            for (vip_index, vip) in gateway.vips.iter().enumerate() {
                if inside(vip.vni, vip.address) {
                    found.push(Problem::new(
                        place.clone(),
                        format!(
                            "{prefix} contains {}, the address of vip[{vip_index}] \"{}\"",
                            vip.address, vip.name
                        ),
                        "use addresses that nothing else has",
                    ));
                }
                for server in &vip.servers {
                    if inside(vip.vni, server.address) {
                        found.push(Problem::new(
                            place.clone(),
                            format!(
                                "{prefix} contains {}, server \"{}\" of vip[{vip_index}] \"{}\"",
                                server.address, server.name, vip.name
                            ),
                            "a local address can't be a server's: use addresses that nothing else has",
                        ));
                    }
                }
            }
        }
    }
    for (index, vip) in gateway.vips.iter().enumerate() {
        let place = format!("vip[{index}] \"{}\".address", vip.name);
        for (vni, address, whose) in &own {
            if *vni == vip.vni && *address == vip.address {
                found.push(Problem::new(
                    place.clone(),
                    format!("{address} is {whose}"),
                    "use an address that nothing else has",
                ));
            }
        }
        for (other_index, other) in gateway.vips.iter().enumerate() {
            if let Some(server) = other
                .servers
                .iter()
                .find(|s| other.vni == vip.vni && s.address == vip.address)
            {
                found.push(Problem::new(
                    place.clone(),
                    format!(
                        "{} is server \"{}\" of vip[{other_index}] \"{}\"",
                        vip.address, server.name, other.name
                    ),
                    "a VIP can't be a server: use an address that nothing else has",
                ));
            }
        }
    }
}
