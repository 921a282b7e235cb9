//! The types of meters (specification, "Meter & DirectMeter" and "MeterEntry &
//! DirectMeterEntry"). Rates are 0, so that only bursts count.

use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::meter_spec::Type;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Code;

use crate::support::*;

/// The program with meters of one type, the array's and the direct one.
fn config_with(kind: Type) -> p4::ForwardingPipelineConfig {
    let mut config = config(1);
    let info = config.p4info.as_mut().unwrap();
    info.meters[0].spec.as_mut().unwrap().r#type = kind.into();
    info.direct_meters[0].spec.as_mut().unwrap().r#type = kind.into();
    config
}

fn meter(config: Option<p4::MeterConfig>) -> p4::MeterEntry {
    p4::MeterEntry {
        meter_id: info().meters[0].preamble.as_ref().unwrap().id,
        index: Some(p4::Index { index: 1 }),
        config,
        counter_data: None,
    }
}

fn rates(burst: i64, pburst: i64, eburst: i64) -> p4::MeterConfig {
    p4::MeterConfig {
        cir: 0,
        cburst: burst,
        pir: 0,
        pburst,
        eburst,
    }
}

/// How many of five packets of 64 bytes get each colour.
async fn colours(bed: &Bed, c: &mut Controller) -> [i64; 3] {
    let query = p4::MeterEntry {
        counter_data: Some(p4::MeterCounterData::default()),
        ..meter(None)
    };
    for _ in 0..5 {
        bed.send(1, &frame(7, 1));
        assert!(bed.receive(2).await.is_some());
    }
    match c.read(query).await.unwrap().as_slice() {
        [Entity::MeterEntry(meter)] => {
            let counts = meter.counter_data.unwrap();
            [counts.green, counts.yellow, counts.red].map(|count| {
                let count = count.unwrap();
                assert_eq!(count.byte_count, 64 * count.packet_count);
                count.packet_count
            })
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_type_marks_as_its_rfc_says() {
    for (kind, config, expected) in [
        // RFC 2698: one packet in the committed burst, three in the peak burst.
        (Type::TwoRateThreeColor, rates(64, 192, 0), [1, 2, 2]),
        // RFC 2697: one in the committed burst, and three more in the excess.
        (Type::SingleRateThreeColor, rates(64, 64, 192), [1, 3, 1]),
        (Type::SingleRateThreeColor, rates(0, 0, 128), [0, 2, 3]),
        (Type::SingleRateTwoColor, rates(128, 128, 0), [2, 0, 3]),
        // What is right for two colours is right for all, and marks alike.
        (Type::SingleRateThreeColor, rates(128, 128, 0), [2, 0, 3]),
        (Type::TwoRateThreeColor, rates(128, 128, 0), [2, 0, 3]),
    ] {
        let bed = Bed::start().await;
        let mut c = bed.primary(1).await;
        let commit = Action::VerifyAndCommit;
        c.set_pipeline(commit, Some(config_with(kind)))
            .await
            .unwrap();
        c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
        let set = meter(Some(config));
        assert_eq!(c.write_one(entry::modify(set)).await, Code::Ok);
        let read = c.read(meter(None)).await.unwrap();
        assert_eq!(read, [Entity::MeterEntry(set)], "{kind:?}");
        let got = colours(&bed, &mut c).await;
        assert_eq!(got, expected, "{kind:?} {config:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_type_has_its_own_rates() {
    use Type::{SingleRateThreeColor, SingleRateTwoColor, TwoRateThreeColor};
    let peak = p4::MeterConfig {
        pir: 5,
        ..rates(1, 1, 0)
    };
    for (kind, config, code) in [
        (TwoRateThreeColor, rates(1, 2, 0), Code::Ok),
        (TwoRateThreeColor, rates(1, 2, 1), Code::InvalidArgument),
        (SingleRateThreeColor, rates(1, 1, 5), Code::Ok),
        (SingleRateThreeColor, rates(1, 2, 5), Code::InvalidArgument),
        (SingleRateThreeColor, peak, Code::InvalidArgument),
        (SingleRateThreeColor, rates(1, 1, -1), Code::InvalidArgument),
        (SingleRateTwoColor, rates(1, 1, 0), Code::Ok),
        (SingleRateTwoColor, rates(1, 1, 1), Code::InvalidArgument),
        (SingleRateTwoColor, rates(1, 2, 0), Code::InvalidArgument),
        (SingleRateTwoColor, peak, Code::InvalidArgument),
    ] {
        let bed = Bed::start().await;
        let mut c = bed.primary(1).await;
        let commit = Action::VerifyAndCommit;
        c.set_pipeline(commit, Some(config_with(kind)))
            .await
            .unwrap();
        let case = format!("{kind:?} {config:?}");
        let update = entry::modify(meter(Some(config)));
        assert_eq!(c.write_one(update).await, code, "{case}");
        // The direct meter alike, with its entry and by itself.
        let rule = |meter_config| p4::TableEntry {
            table_id: table_id("MyIngress.acl"),
            priority: 1,
            action: Some(action("MyIngress.allow", &[])),
            meter_config,
            ..Default::default()
        };
        let update = entry::insert(rule(Some(config)));
        assert_eq!(c.write_one(update).await, code, "{case}");
        if code == Code::Ok {
            let read = c.read_entries(rule(Some(config))).await;
            assert_eq!(read, [rule(Some(config))], "{case}");
        } else {
            c.write(vec![entry::insert(rule(None))]).await.unwrap();
        }
        let direct = p4::DirectMeterEntry {
            table_entry: Some(rule(None)),
            config: Some(config),
            counter_data: None,
        };
        let update = entry::modify(direct);
        assert_eq!(c.write_one(update).await, code, "{case}");
    }
}
