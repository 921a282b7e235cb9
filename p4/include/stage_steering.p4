// Stage 6: which load director? A request goes by the bucket of its flow's
// hash, a reply by the slot that owns its local address. The slot, in both
// cases, names the director, so moving a slot moves both directions.

#ifndef GATEWAY_STAGE_STEERING_P4
#define GATEWAY_STAGE_STEERING_P4

control Steering(inout headers_t hdr, inout metadata_t meta) {
    FlowHash() flow_hash;
    bool found;

    action set_slot(slot_t slot) {
        meta.slot = slot;
    }

    action to_ld(nexthop_id_t nexthop_id) {
        meta.nexthop_id = nexthop_id;
        meta.steered = true;
    }

    table bucket {
        key = {
            meta.group : exact @name("group");
            meta.bucket : exact @name("bucket");
        }
        actions = {
            set_slot;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_BUCKETS;
    }

    table slot {
        key = {
            meta.slot : exact @name("slot");
        }
        actions = {
            to_ld;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_SLOTS;
    }

    apply {
        flow_hash.apply(hdr, meta);

        found = true;
        if (meta.packet_class == PacketClass.VIP) {
            meta.bucket = (bucket_t) meta.flow_hash[15:0] & (BUCKETS - 1);
            if (!bucket.apply().hit) {
                found = false;
            }
        }

        if (found) {
            slot.apply();
        }

        if (!meta.steered) {
            meta.drop_reason = DropReason.STEERING_MISS;
        } else if (meta.path == Path.NONE) {
            if (meta.packet_class == PacketClass.VIP) {
                meta.path = Path.STEER_VIP;
            } else {
                meta.path = Path.STEER_LIP;
            }
        }
    }
}

#endif
