//! Finds libdpdk, compiles the C shim and generates the bindings.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, exit},
};

/// The oldest release whose interfaces the shim uses.
const OLDEST: &str = "22.11";

/// DPDK functions that are real symbols with a stable signature.
const FUNCTIONS: &[&str] = &[
    "rte_eal_init",
    "rte_version",
    "rte_strerror",
    "rte_get_tsc_hz",
    "rte_thread_register",
    "rte_thread_unregister",
    "rte_pktmbuf_pool_create",
    "rte_pktmbuf_free_bulk",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_ring_free",
    "rte_eth_dev_is_valid_port",
    "rte_eth_dev_get_name_by_port",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_close",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_get_mtu",
    "rte_eth_promiscuous_enable",
    "rte_eth_promiscuous_disable",
    "rte_eth_promiscuous_get",
    "rte_eth_xstats_get",
    "rte_eth_xstats_get_names",
    "shim_.*",
];

/// Structures that Rust only ever holds a pointer to; `src/lib.rs` declares
/// them without a layout.
const OPAQUE: &[&str] = &["rte_mbuf.*", "rte_mempool.*", "(__)?rte_ring.*"];

/// The libraries whose symbols the bindings and the shim use. The drivers are
/// not among them: the EAL loads those itself from its plugin directory.
const LIBRARIES: &[&str] = &[
    "rte_eal",
    "rte_ethdev",
    "rte_mbuf",
    "rte_mempool",
    "rte_ring",
    "rte_net_ring",
];

fn main() {
    for path in ["build.rs", "shim/shim.c", "shim/shim.h"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let library = pkg_config::Config::new()
        .atleast_version(OLDEST)
        .cargo_metadata(false)
        .probe("libdpdk")
        .unwrap_or_else(|error| {
            stop(&format!(
                "DPDK {OLDEST} or newer was not found by pkg-config ({}): install the Debian \
                 packages libdpdk-dev, dpdk-dev, pkg-config, clang and libclang-dev (`cargo xtask \
                 lab` installs them)",
                first_line(&error.to_string())
            ))
        });
    for path in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    let flags = compiler_flags();
    compile_shim(&flags);
    // After the shim, which needs their symbols.
    for name in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    generate_bindings(&flags);
    println!("cargo:version={}", library.version);
}

/// DPDK needs more than include paths: a forced include and a `-march`, which
/// only the raw output of pkg-config has.
fn compiler_flags() -> Vec<String> {
    let pkg_config = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = Command::new(&pkg_config)
        .args(["--cflags", "libdpdk"])
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        Ok(output) => stop(&format!(
            "`{pkg_config} --cflags libdpdk` failed: {}",
            first_line(&String::from_utf8_lossy(&output.stderr))
        )),
        Err(error) => stop(&format!(
            "cannot run {pkg_config}: {error}; install the Debian package pkg-config"
        )),
    }
}

fn compile_shim(flags: &[String]) {
    let mut build = cc::Build::new();
    build.file("shim/shim.c").opt_level(3).warnings(true);
    for flag in flags {
        build.flag(flag);
    }
    if let Err(error) = build.try_compile("sluice_dpdk_shim") {
        stop(&format!(
            "the C shim does not compile against this DPDK: {error}"
        ));
    }
}

fn generate_bindings(flags: &[String]) {
    let mut builder = bindgen::Builder::default()
        .header("shim/shim.h")
        .clang_args(flags)
        .allowlist_type("shim_.*")
        .layout_tests(false)
        .generate_comments(false)
        .prepend_enum_name(false)
        .formatter(bindgen::Formatter::None)
        .rust_target(rust_target())
        .rust_edition(bindgen::RustEdition::Edition2024);
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in OPAQUE {
        builder = builder.blocklist_type(name);
    }
    // bindgen panics when it cannot load libclang.
    std::panic::set_hook(Box::new(|_| {}));
    let generated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.generate()));
    let _ = std::panic::take_hook();
    let bindings = match generated {
        Ok(Ok(bindings)) => bindings,
        Ok(Err(error)) => stop(&format!(
            "bindgen cannot read DPDK's headers: {error}; the Debian package clang has the \
             compiler's own headers it needs"
        )),
        Err(_) => {
            stop("bindgen cannot load libclang: install the Debian packages clang and libclang-dev")
        }
    };
    let out = env::var_os("OUT_DIR").map_or_else(|| stop("OUT_DIR is not set"), PathBuf::from);
    let file = Path::new(&out).join("bindings.rs");
    if let Err(error) = bindings.write_to_file(&file) {
        stop(&format!("cannot write {}: {error}", file.display()));
    }
}

/// The language that the bindings may use, whatever compiler builds them.
fn rust_target() -> bindgen::RustTarget {
    bindgen::RustTarget::stable(85, 0)
        .unwrap_or_else(|_| stop("this bindgen does not know Rust 1.85"))
}

fn first_line(text: &str) -> &str {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message")
        .trim()
}

/// Ends the build with one sentence instead of a panic and its backtrace.
fn stop(message: &str) -> ! {
    eprintln!("dpdk-sys: {message}");
    exit(1)
}
