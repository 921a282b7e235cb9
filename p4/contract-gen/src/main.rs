//! `p4-contract-gen compile | generate | check`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use p4_contract_gen::layout::Layout;
use p4_contract_gen::manifest::Manifest;
use p4_contract_gen::{check, compile, generate, programs};

/// Compiles the P4 program and generates p4-contract from its P4Info.
#[derive(Parser)]
struct Arguments {
    /// The P4 folder; that of the source tree if left out.
    #[arg(long)]
    p4_dir: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compile the program, write outputs, manifest, Rust sources and document.
    Compile,
    /// Write Rust sources and document from the P4Info that is there.
    Generate,
    /// Check that sources, outputs, Rust sources and document belong together.
    Check,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let layout = arguments
        .p4_dir
        .map_or_else(Layout::of_this_tree, Layout::new);
    match arguments.verb {
        Verb::Compile => {
            let version = compile::version()?.with_context(|| {
                format!(
                    "{} is not installed: install p4c, or work with what p4/build holds",
                    compile::COMPILER
                )
            })?;
            let flags = compile::FLAGS.map(str::to_owned);
            let compiled = compile::compile(&layout, &flags)?;
            compile::write(&layout, &compiled)?;
            Manifest::of(&layout, version.clone(), flags.to_vec())?.write(&layout)?;
            generate::write(&layout, &generate::render(&layout)?)?;
            programs::compile(&layout.tree(), &version)?;
            println!(
                "compiled with {version}; outputs, manifest, Rust sources and document written"
            );
        }
        Verb::Generate => {
            generate::write(&layout, &generate::render(&layout)?)?;
            println!("Rust sources and document written");
        }
        Verb::Check => {
            let mut report = check::check(&layout)?;
            programs::check(&layout.tree(), &programs::SETS, &mut report)?;
            for skipped in &report.skipped {
                println!("SKIPPED {skipped}");
            }
            if !report.faults.is_empty() {
                bail!("{}", report.faults.join("\n"));
            }
            println!("sources, outputs, Rust sources and document belong together");
        }
    }
    Ok(())
}
