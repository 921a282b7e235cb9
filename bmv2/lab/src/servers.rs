//! The real servers behind the VIPs: nginx, iperf3 and a UDP service.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::process::{Process, Spec};
use crate::stack::{Files, sibling};
use crate::topology::Topology;

/// Port of nginx, as gateway.toml has it.
const WEB_PORT: u16 = 8080;

/// A file that the web servers offer.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Name in the URL.
    pub name: String,
    /// Length, bytes.
    pub bytes: u64,
    /// SHA-256, hexadecimal.
    pub sha256: String,
}

/// Makes (or finds, from an earlier run) a file of `mebibytes` MiB of
/// pseudo-random bytes in `folder`.
///
/// # Errors
/// If the disk refuses.
pub fn offer(folder: &Path, name: &str, mebibytes: u64) -> Result<Offered> {
    let path = folder.join(name);
    let bytes = mebibytes << 20;
    let sum = folder.join(format!("{name}.sha256"));
    if let (Ok(meta), Ok(sha256)) = (fs::metadata(&path), fs::read_to_string(&sum))
        && meta.len() == bytes
        && sha256.len() == 64
    {
        return Ok(Offered {
            name: name.into(),
            bytes,
            sha256,
        });
    }
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let mut hash = Sha256::new();
    // xorshift64* (Vigna, 2016): nothing that a compressing or repeating fault
    // on the way could pass unnoticed.
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ mebibytes;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..mebibytes {
        for word in block.chunks_exact_mut(8) {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            word.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        hash.update(&block);
        file.write_all(&block)
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    file.flush()?;
    let sha256 = hex(&hash.finalize());
    fs::write(&sum, &sha256)?;
    Ok(Offered {
        name: name.into(),
        bytes,
        sha256,
    })
}

/// Bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Starts nginx, iperf3 and the UDP service on every server.
///
/// # Errors
/// If one can't be started.
pub fn start(topology: &Topology, files: &Files, www: &Path, keep: bool) -> Result<Vec<Process>> {
    let nginx = find("nginx", &["/usr/sbin", "/usr/bin", "/usr/local/sbin"])?;
    let iperf3 = find("iperf3", &["/usr/bin", "/usr/local/bin"])?;
    let own = sibling("sluice-lab")?;
    let mut started = Vec::new();
    for (index, namespace) in topology.servers.iter().enumerate() {
        let name = format!("s{}", index + 1);
        let prefix = files.run.join(format!("nginx-{name}"));
        fs::create_dir_all(&prefix)?;
        let config = files.write(
            &format!("nginx-{name}.conf"),
            &nginx_conf(&name, &prefix, www),
        )?;
        let mut start = |what: &str, program: &Path, arguments: Vec<String>| -> Result<()> {
            started.push(Process::start(Spec {
                what: &format!("{what}-{name}"),
                namespace,
                program,
                arguments,
                logs: &files.logs,
                keep,
            })?);
            Ok(())
        };
        start(
            "nginx",
            &nginx,
            vec![
                "-e".into(),
                files
                    .logs
                    .join(format!("nginx-{name}.log"))
                    .display()
                    .to_string(),
                "-p".into(),
                prefix.display().to_string(),
                "-c".into(),
                config.display().to_string(),
            ],
        )?;
        start("iperf3", &iperf3, vec!["-s".into()])?;
        start(
            "udp",
            &own,
            vec!["udp-server".into(), "--name".into(), name.clone()],
        )?;
    }
    Ok(started)
}

fn find(name: &str, folders: &[&str]) -> Result<PathBuf> {
    folders
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not installed; cargo xtask lab installs it"))
}

fn nginx_conf(name: &str, prefix: &Path, www: &Path) -> String {
    let prefix = prefix.display();
    format!(
        "user root;\ndaemon off;\nmaster_process off;\npid {prefix}/pid;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n access_log off;\n default_type application/octet-stream;\n sendfile on;\n \
         keepalive_timeout 5;\n client_body_temp_path {prefix}/body;\n \
         proxy_temp_path {prefix}/proxy;\n fastcgi_temp_path {prefix}/fastcgi;\n \
         uwsgi_temp_path {prefix}/uwsgi;\n scgi_temp_path {prefix}/scgi;\n \
         server {{\n  listen {WEB_PORT} backlog=1024;\n  root {};\n  add_header X-Server {name};\n }}\n}}\n",
        www.display()
    )
}
