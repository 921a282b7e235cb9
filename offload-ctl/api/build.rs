//! Compiles `proto/offload.proto` without protoc.

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=proto/offload.proto");
    let files = protox::compile(["proto/offload.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
