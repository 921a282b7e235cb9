//! Compiles `proto/` with protox, so that no `protoc` need be installed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;
use protox::Compiler;

const FILES: [&str; 6] = [
    "google/rpc/code.proto",
    "google/rpc/status.proto",
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");

    let mut compiler = Compiler::new(["proto"])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_files(FILES)?;
    let mut descriptors = compiler.file_descriptor_set();

    // Type names let messages be packed into google.protobuf.Any.
    let mut prost = tonic_prost_build::Config::new();
    prost
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com");
    tonic_prost_build::configure().compile_fds_with_config(descriptors.clone(), prost)?;

    // Comments are in the generated code; programs need only the schema.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(out, descriptors.encode_to_vec())?;
    Ok(())
}
