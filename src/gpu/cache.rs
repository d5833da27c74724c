// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things worth keeping between runs live on disk, and how they are written.
//!
//! The directory is the user's cache directory (`$XDG_CACHE_HOME/framecast` on Linux). The environment variable
//! `FRAMECAST_CACHE` names another one, or switches caching off with `off`. Nothing here can fail a pipeline: a cache
//! that cannot be read or written is ignored with one log line.

use std::io::Write;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"framecc1";

/// The cache directory, or `None` where caching is off or the platform has none.
pub fn directory() -> Option<PathBuf> {
    match std::env::var_os("FRAMECAST_CACHE") {
        Some(value) if value == "off" => None,
        Some(value) if !value.is_empty() => Some(PathBuf::from(value)),
        _ => directories::ProjectDirs::from("", "", "framecast").map(|dirs| dirs.cache_dir().to_owned()),
    }
}

/// Reads what [`store`] wrote; `None` for a missing, truncated or altered file.
///
/// Drivers check only the header of a pipeline cache, so its body is protected by a checksum here.
pub fn load(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let body = parse(&bytes);
    if body.is_none() {
        log::warn!("ignoring damaged cache file {}", path.display());
    }
    body.map(<[u8]>::to_vec)
}

fn parse(bytes: &[u8]) -> Option<&[u8]> {
    let (magic, rest) = bytes.split_at_checked(MAGIC.len())?;
    let (sum, body) = rest.split_at_checked(4)?;
    (magic == MAGIC && sum == crc32fast::hash(body).to_le_bytes()).then_some(body)
}

/// Replaces `path` atomically, so that a reader in another process sees the old or the new file, never a part.
pub fn store(path: &Path, body: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(MAGIC)?;
    file.write_all(&crc32fast::hash(body).to_le_bytes())?;
    file.write_all(body)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nested/cache.bin");
        assert_eq!(load(&path), None);
        store(&path, b"pipelines").unwrap();
        assert_eq!(load(&path).as_deref(), Some(&b"pipelines"[..]));
        let mut bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), None, "truncated to {cut} bytes");
        }
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(load(&path), None);
    }
}
