//! The cases by what they are about, and what they have in common.

pub mod control;
mod fast_path;
mod ports;
mod routing;
mod steering;
mod tunnel;
mod validity;

use anyhow::Result;
use hw_tests::books::Cell;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, Ip};
use hw_tests::scene::{
    CLIENT_MAC, LD, SERVER_MAC, SERVERS, Session, TAGGED, TAGGED_MAC, UPLINK, VLAN, from_ld,
    hashed_port, port_mac, slot_of, to_ld,
};

use crate::Case;

/// A table of functions under their own names.
macro_rules! table {
    ($module:ident: $($case:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($case)), $module::$case as fn(&mut Fixture) -> Result<()>)),*]
    };
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(table!(ports:
        arp_request_is_punted,
        arp_reply_with_tag_is_punted_as_it_came,
        packet_out_leaves_as_it_is,
        packet_out_gets_the_tag_of_its_port,
        packet_out_with_tag_is_not_tagged_twice,
        packet_out_to_no_port_is_dropped,
        packet_to_the_gateway_is_punted,
        unknown_vlan,
        untagged_on_a_tagged_port,
        priority_tag_is_no_tag,
        tag_is_stripped,
        tag_is_pushed,
        tag_is_replaced_with_priority_zero,
        two_tags,
        two_tags_with_a_service_tag,
        frame_for_somebody_else,
        broadcast_frame,
        ipv6,
        unknown_ethertype,
        length_instead_of_ethertype,
        egress_port_without_entry,
        ingress_port_without_entry,
    ));
    all.extend(table!(validity:
        bad_ipv4_checksum,
        bad_ipv4_checksum_with_options,
        ip_version_5_in_an_ipv4_frame,
        header_length_of_four_words,
        truncated_ipv4_header,
        truncated_ipv4_options,
        truncated_tcp_header,
        truncated_udp_header,
        truncated_arp,
        total_length_beyond_the_frame,
        total_length_within_the_l4_header,
        total_length_within_the_ip_header,
        martian_sources,
        land_attack,
        ttl_1_and_0,
        ethernet_padding_stays_behind_the_packet,
    ));
    all.extend(table!(steering:
        syn_goes_to_the_ld,
        every_bucket_leads_to_its_slot,
        port_range_has_its_own_group,
        tenant_keeps_its_network,
        miss_in_the_flow_table,
        reply_without_session,
        reply_with_udp,
        first_and_later_fragments,
        fragments_to_a_local_address,
        icmp_to_the_vip,
        icmp_to_a_local_address,
        other_protocol_to_the_vip,
        vip_without_that_port,
        ttl_1_to_the_ld_is_not_touched,
        options_to_the_ld,
        missing_bucket,
        missing_slot,
        slot_of_a_local_address_missing,
        jumbo_to_the_ld,
    ));
    all.extend(table!(fast_path:
        tcp_forward,
        tcp_reply,
        udp_forward,
        udp_reply,
        udp_without_checksum_stays_without,
        udp_checksum_that_comes_out_as_zero,
        udp_checksum_that_was_ffff,
        tcp_checksum_that_comes_out_as_zero,
        ipv4_checksum_that_comes_out_as_zero,
        wrong_l4_checksum_stays_wrong,
        ip_options,
        tcp_options,
        all_other_flags,
        tos_id_and_payload_are_kept,
        port_range_keeps_the_port,
        port_range_reply_from_another_port,
        malformed_l4_goes_to_the_ld,
        syn_fin_rst_go_to_the_ld,
        fin_and_rst_of_the_server_go_to_the_ld,
        reply_from_another_server,
        reply_from_another_port,
        server_missing,
        local_missing,
        vip_out_missing,
        too_big_for_the_server_goes_to_the_ld,
        too_big_for_the_client_goes_to_the_ld,
        largest_packet_that_fits,
        no_route_to_the_server,
        ttl_1_on_a_session,
        moved_server_takes_effect,
        deleted_flow_goes_to_the_ld,
    ));
    all.extend(table!(tunnel:
        return_of_the_ld_is_unpacked_and_routed,
        return_with_udp_without_checksum,
        return_with_options,
        return_of_a_fragment,
        return_of_icmp,
        return_of_a_jumbo,
        return_to_a_tagged_port,
        return_in_a_tenants_network,
        return_to_another_tunnel,
        return_is_not_classified_again,
        tunnel_from_the_uplink,
        tunnel_from_the_fabric,
        tunnel_without_vni_flag,
        tunnel_with_arp_inside,
        tunnel_longer_than_its_packet,
        inner_bad_checksum,
        inner_bad_checksum_with_options,
        inner_martian,
        inner_ttl_1,
        inner_no_route,
        inner_too_big,
        inner_truncated,
        short_udp_to_the_tunnel_port,
        tunnel_of_others_is_only_routed,
    ));
    all.extend(table!(routing:
        transit,
        longest_prefix_wins,
        transit_from_the_ld_port,
        transit_fragment,
        transit_unknown_protocol,
        no_route,
        route_of_another_network,
        missing_next_hop,
        too_big_in_transit,
        next_hop_without_mtu_entry,
        into_a_tunnel_without_slot,
    ));
    all.extend(table!(control:
        tables_hold_the_configuration,
        pipeline_reads_back,
        capabilities_name_the_version,
        backup_controller_may_not_write,
        errors_are_told_update_by_update,
        full_table,
        entry_counters_count_and_start_at_zero,
        idle_entries_are_reported,
    ));
    all
}

/// A frame of the client.
fn from_client(packet: &Ip) -> Result<Vec<u8>> {
    frame::ipv4(port_mac(UPLINK), CLIENT_MAC, packet)
}

/// A frame to the client.
fn to_client(packet: &Ip) -> Result<Vec<u8>> {
    frame::ipv4(CLIENT_MAC, port_mac(UPLINK), packet)
}

/// A frame of the server.
fn from_server(packet: &Ip) -> Result<Vec<u8>> {
    frame::ipv4(port_mac(SERVERS), SERVER_MAC, packet)
}

/// A frame to the server.
fn to_server(packet: &Ip) -> Result<Vec<u8>> {
    frame::ipv4(SERVER_MAC, port_mac(SERVERS), packet)
}

/// A frame of the server on the tagged port.
fn from_tagged(packet: &Ip) -> Result<Vec<u8>> {
    let plain = frame::ipv4(port_mac(TAGGED), TAGGED_MAC, packet)?;
    Ok(frame::tagged(&plain, 0x8100, VLAN))
}

/// A frame to the server on the tagged port.
fn to_tagged(packet: &Ip) -> Result<Vec<u8>> {
    let plain = frame::ipv4(TAGGED_MAC, port_mac(TAGGED), packet)?;
    Ok(frame::tagged(&plain, 0x8100, VLAN))
}

/// The frame to the load director of a packet that is steered by its hash.
fn steered(packet: &Ip) -> Result<Vec<u8>> {
    to_ld(hashed_port(packet), slot_of(packet), 0).around(&packet.bytes()?)
}

/// The frame to the load director of a reply to a local port.
fn steered_reply(packet: &Ip, local_port: u16, slot: u16) -> Result<Vec<u8>> {
    to_ld(0xc000 | (local_port & 0x3fff), slot, 0).around(&packet.bytes()?)
}

/// A frame of the load director, with a packet in the tunnel.
fn returned(packet: &Ip) -> Result<Vec<u8>> {
    from_ld(0).around(&packet.bytes()?)
}

/// What a hit of the forward entry counts, besides port and path.
fn forward_cells(session: &Session) -> [Cell; 4] {
    [
        Cell::VipRx(session.vip_id),
        Cell::VipFastFwd(session.vip_id),
        Cell::ServerFastFwd(session.server_id),
        Cell::FlowFwd(session.forward_key()),
    ]
}

/// What a hit of the reverse entry counts, besides port and path.
fn reverse_cells(session: &Session) -> [Cell; 3] {
    [
        Cell::VipFastRev(session.vip_id),
        Cell::ServerFastRev(session.server_id),
        Cell::FlowRev(session.reverse_key()),
    ]
}

/// Port of the load director, for readers of the cases.
const TO_LD: u16 = LD;
