//! Which learn lists of the program are which digest of P4Info.
//!
//! The compiler writes a learn list for every call of `digest()`, with the name
//! of the type; P4Info has one digest for each named type, and one for each call
//! with a tuple, whose made-up names differ from those of the lists.

use std::collections::HashMap;

use p4runtime_proto::p4::config::v1::{Digest, P4Info};

use crate::p4rt::data::DataType;
use crate::{DigestId, Program};

/// For each digest of P4Info its lists; none if the compiler left it out.
pub(super) fn match_lists(info: &P4Info, program: &Program) -> Vec<Vec<DigestId>> {
    let mut by_name: HashMap<&str, Vec<DigestId>> = HashMap::new();
    for (id, list) in (0..).map(DigestId).zip(program.digests()) {
        by_name.entry(&list.name).or_default().push(id);
    }
    let mut found: Vec<Vec<DigestId>> = info
        .digests
        .iter()
        .map(|digest| by_name.remove(name(digest)).unwrap_or_default())
        .collect();
    // Both sides number the calls with tuples in the order of the program.
    let mut rest: Vec<DigestId> = by_name.into_values().flatten().collect();
    rest.sort_unstable();
    let mut nameless: Vec<usize> = (0..info.digests.len())
        .filter(|&at| found[at].is_empty())
        .collect();
    nameless.sort_by_key(|&at| number(name(&info.digests[at])));
    for at in nameless {
        let data = DataType::new(info.digests[at].type_spec.as_ref(), info.type_info.as_ref());
        let Ok(data) = data else { continue };
        let widths = data.widths();
        let fits = |id: &DigestId| {
            let list = &program.digests()[id.index()].widths;
            let same = |(a, b): (&u32, &Option<u32>)| b.is_none_or(|b| *a == b);
            list.len() == widths.len() && list.iter().zip(&widths).all(same)
        };
        if let Some(position) = rest.iter().position(fits) {
            found[at].push(rest.remove(position));
        }
    }
    found
}

fn name(digest: &Digest) -> &str {
    digest.preamble.as_ref().map_or("", |p| p.name.as_str())
}

/// The number in `digest_7`.
fn number(name: &str) -> Option<u32> {
    name.rsplit_once('_')?.1.parse().ok()
}
