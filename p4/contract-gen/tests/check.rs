//! The committed sources, outputs and generated files belong together, and
//! [`check`] would notice if they did not.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;
use std::path::Path;

use p4_contract_gen::check::{Report, check};
use p4_contract_gen::layout::Layout;
use p4_contract_gen::{generate, layout, manifest, programs};

/// Past the capture of passing tests' output.
fn say_skipped(report: &Report) {
    for skipped in &report.skipped {
        let _ = writeln!(std::io::stderr(), "SKIPPED {skipped}");
    }
}

#[test]
fn what_is_committed_belongs_together() {
    let report = check(&Layout::of_this_tree()).unwrap();
    say_skipped(&report);
    assert!(report.faults.is_empty(), "{}", report.faults.join("\n"));
}

/// A copy of the P4 folder that a test may damage.
fn copy() -> (tempfile::TempDir, Layout) {
    let from = Layout::of_this_tree();
    let folder = tempfile::tempdir().unwrap();
    let to = Layout::new(folder.path().join("p4"));
    let outputs = [layout::PIPELINE_JSON, layout::P4INFO, layout::MANIFEST].map(str::to_owned);
    for file in from.sources().unwrap().into_iter().chain(outputs) {
        let path = to.path(&file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, from.read(&file).unwrap()).unwrap();
    }
    std::fs::create_dir(folder.path().join("docs")).unwrap();
    let files = generate::present(&from).unwrap();
    let document = generate::document(&from).unwrap();
    generate::write(&to, &generate::Generated { files, document }).unwrap();
    (folder, to)
}

fn faults(layout: &Layout) -> String {
    check(layout).unwrap().faults.join("\n")
}

fn append(path: &Path, text: &str) {
    let mut content = std::fs::read_to_string(path).unwrap();
    content.push_str(text);
    std::fs::write(path, content).unwrap();
}

#[test]
fn a_changed_source_is_noticed() {
    let (_folder, layout) = copy();
    append(&layout.path("include/books.p4"), "// changed\n");
    let faults = faults(&layout);
    assert!(
        faults.contains("source include/books.p4 has changed"),
        "{faults}"
    );
}

#[test]
fn a_new_source_is_noticed() {
    let (_folder, layout) = copy();
    std::fs::write(layout.path("include/extra.p4"), "").unwrap();
    let faults = faults(&layout);
    assert!(
        faults.contains("source include/extra.p4 is new"),
        "{faults}"
    );
}

#[test]
fn a_changed_output_is_noticed() {
    let (_folder, layout) = copy();
    append(&layout.path(layout::PIPELINE_JSON), "\n");
    let faults = faults(&layout);
    assert!(
        faults.contains("output build/gateway.json has changed"),
        "{faults}"
    );
    // The cookie is made of the outputs.
    assert!(faults.contains("generated mod.rs does not fit"), "{faults}");
}

#[test]
fn an_edited_or_foreign_generated_file_is_noticed() {
    let (_folder, layout) = copy();
    append(&layout.generated().join("tables/vip_v4.rs"), "// edited\n");
    std::fs::write(layout.generated().join("tables/other.rs"), "").unwrap();
    let faults = faults(&layout);
    assert!(
        faults.contains("generated tables/vip_v4.rs does not fit"),
        "{faults}"
    );
    assert!(
        faults.contains("tables/other.rs lies among the generated files"),
        "{faults}"
    );
}

#[test]
fn an_edited_document_is_noticed() {
    let (_folder, layout) = copy();
    let text = generate::document(&layout).unwrap();
    std::fs::write(
        layout.document(),
        text.replace("| `vip_rx` |", "| `vip_seen` |"),
    )
    .unwrap();
    let faults = faults(&layout);
    assert_eq!(
        faults,
        "docs/table-contract.md does not fit P4Info: run `cargo xtask p4`"
    );
}

#[test]
fn the_manifest_names_every_source_by_its_hash() {
    let layout = Layout::of_this_tree();
    let recorded = manifest::Manifest::read(&layout).unwrap();
    for name in [
        "gateway.p4",
        "include/parser.p4",
        "include/arch/v1model_package.p4",
    ] {
        let hash = manifest::sha256(&layout.read(name).unwrap());
        assert_eq!(recorded.sources.get(name), Some(&hash), "{name}");
    }
    assert!(
        recorded.compiler.starts_with("p4c-bm2-ss "),
        "{}",
        recorded.compiler
    );
    assert!(
        recorded.flags.iter().all(|flag| !flag.contains("/")),
        "{:?}",
        recorded.flags
    );
}

#[test]
fn test_programs_belong_together_with_their_outputs() {
    let mut report = Report::default();
    let tree = Layout::of_this_tree().tree();
    programs::check(&tree, &programs::SETS, &mut report).unwrap();
    say_skipped(&report);
    assert!(report.faults.is_empty(), "{}", report.faults.join("\n"));
}

#[test]
fn a_changed_test_program_or_output_is_noticed() {
    let tree = Layout::of_this_tree().tree();
    let set = &programs::SETS[4];
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join(set.folder);
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["router.p4", "router.json", "manifest.json"] {
        std::fs::copy(tree.join(set.folder).join(file), folder.join(file)).unwrap();
    }
    let faults = || {
        let mut report = Report::default();
        programs::check(scratch.path(), &[*set], &mut report).unwrap();
        report.faults.join("\n")
    };
    assert_eq!(faults(), "");
    append(&folder.join("router.p4"), "// changed\n");
    let found = faults();
    assert!(found.contains("source router.p4 has changed"), "{found}");
    append(&folder.join("router.json"), " ");
    let found = faults();
    assert!(found.contains("output router.json has changed"), "{found}");
    std::fs::remove_file(folder.join("router.json")).unwrap();
    let found = faults();
    assert!(found.contains("output router.json is gone"), "{found}");
}
