//! The difference between two configurations, for people.

use offload_api::v1::{Change, change::Kind};
use serde::Serialize;
use serde_json::Value;
use sluice_config::Gateway;

/// What changes when `new` takes the place of `old`, in the order of the file.
pub fn changes(old: &Gateway, new: &Gateway) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.switch != new.switch {
        changes.push(Change {
            kind: Kind::Modify.into(),
            object: "switch".into(),
            detail: fields(&old.switch, &new.switch, &[]),
        });
    }
    let named = |what: &'static str| move |name: &str| format!("{what} \"{name}\"");
    compare(
        &mut changes,
        &old.ports,
        &new.ports,
        |p| p.number,
        |p| named("port")(&p.name),
        &[],
    );
    compare(
        &mut changes,
        &old.neighbors,
        &new.neighbors,
        |n| n.address,
        |n| format!("neighbor {}", n.address),
        &[],
    );
    compare(
        &mut changes,
        &old.routes,
        &new.routes,
        |r| (r.vni, r.prefix),
        |r| format!("route {}", r.prefix),
        &[],
    );
    compare(
        &mut changes,
        &old.lds,
        &new.lds,
        |l| l.name.clone(),
        |l| named("ld")(&l.name),
        &[],
    );
    compare(
        &mut changes,
        &old.groups,
        &new.groups,
        |g| g.name.clone(),
        |g| named("group")(&g.name),
        &[],
    );
    compare(
        &mut changes,
        &old.vips,
        &new.vips,
        |v| v.name.clone(),
        |v| named("vip")(&v.name),
        &["server"],
    );
    for vip in &new.vips {
        let before = old.vips.iter().find(|v| v.name == vip.name);
        if let Some(before) = before {
            compare(
                &mut changes,
                &before.servers,
                &vip.servers,
                |s| s.name.clone(),
                |s| format!("vip \"{}\" server \"{}\"", vip.name, s.name),
                &[],
            );
        }
    }
    changes
}

fn compare<T: Serialize + PartialEq, K: PartialEq>(
    changes: &mut Vec<Change>,
    old: &[T],
    new: &[T],
    key: impl Fn(&T) -> K,
    name: impl Fn(&T) -> String,
    apart: &[&str],
) {
    for after in new {
        match old.iter().find(|before| key(before) == key(after)) {
            None => changes.push(Change {
                kind: Kind::Add.into(),
                object: name(after),
                detail: summary(after),
            }),
            Some(before) => {
                let detail = fields(before, after, apart);
                if !detail.is_empty() {
                    changes.push(Change {
                        kind: Kind::Modify.into(),
                        object: name(after),
                        detail,
                    });
                }
            }
        }
    }
    for before in old {
        if !new.iter().any(|after| key(after) == key(before)) {
            changes.push(Change {
                kind: Kind::Remove.into(),
                object: name(before),
                detail: summary(before),
            });
        }
    }
}

/// `field: old -> new` for each field that differs.
fn fields<T: Serialize>(old: &T, new: &T, apart: &[&str]) -> String {
    let (Ok(Value::Object(old)), Ok(Value::Object(new))) =
        (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return String::new();
    };
    let mut keys: Vec<&String> = new.keys().collect();
    keys.extend(old.keys().filter(|key| !new.contains_key(*key)));
    keys.into_iter()
        .filter(|key| !apart.contains(&key.as_str()) && old.get(*key) != new.get(*key))
        .map(|key| format!("{key}: {} -> {}", show(old.get(key)), show(new.get(key))))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The fields that matter at a glance: plain values, not tables.
fn summary<T: Serialize>(object: &T) -> String {
    let Ok(Value::Object(object)) = serde_json::to_value(object) else {
        return String::new();
    };
    object
        .iter()
        .filter_map(|(key, value)| match value {
            Value::Object(_) | Value::Null => None,
            Value::Array(items) if items.iter().any(Value::is_object) => {
                Some(format!("{} {key}s", items.len()))
            }
            _ if key == "name" => None,
            value => Some(format!("{key} {}", show(Some(value)))),
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn show(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| show(Some(item))).collect();
            format!("[{}]", items.join(" "))
        }
        Some(other) => other.to_string(),
    }
}
