//! The vault: secrets that were put through the API, in `managed/vault.json` beside the configuration.
//!
//! With `[vault] key` each value is encrypted there (AES-256-GCM, a fresh random nonce for each write, the secret's name
//! as associated data: no value can be passed off as another's); without one it is readable by the sidecar's user
//! alone. In memory it stays as it is in the file and is opened for one request. No API reads a value back.
//!
//! Random nonces of 96 bits are safe for 2^32 writes under one key (NIST SP 800-38D, 8.3): a write a second for a
//! century.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use oncegate_config::model::Config;
use oncegate_policy::time::Timestamp;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::durable;
use crate::secrets::{self, SecretError};

const FILE: &str = "vault.json";
/// The only format there is.
const VERSION: u32 = 1;
/// Least bytes of key material.
const KEY_BYTES_MIN: usize = 32;
/// Binds what is derived and sealed to this use.
const CONTEXT: &[u8] = b"oncegate vault 1";
/// Sealed under no secret's name (those are never empty): tells a wrong key before anything is asked for.
const PROBE: &str = "";

/// Why the vault cannot be used. Holds nothing of a value or a key.
#[derive(Debug, Error)]
pub enum VaultError {
    /// The file cannot be read or written.
    #[error("managed/vault.json cannot be {step}")]
    File {
        /// `read` or `written`.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what the sidecar writes.
    #[error("managed/vault.json is damaged at line {line}, or of a newer version")]
    Damaged {
        /// Where; 0 when the text is whole.
        line: usize,
    },
    /// The key cannot be had.
    #[error("the vault's key cannot be had")]
    Key(#[source] SecretError),
    /// It is no key.
    #[error("[vault] key must be at least 32 bytes, as hex or base64; `openssl rand -base64 32` makes one")]
    Material,
    /// The values are encrypted, and no key is configured.
    #[error("the values in managed/vault.json are encrypted: configure `[vault] key`")]
    NoKey,
    /// They are encrypted under another key.
    #[error("[vault] key is not the key that managed/vault.json was encrypted with; nothing was changed")]
    WrongKey,
    /// No random numbers, or a value beyond the cipher's size.
    #[error("a value could not be encrypted")]
    Seal,
}

/// As it is in the file.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<Value>,
    secrets: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    created_at: i64,
    updated_at: i64,
    value: Value,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    /// Base64 of the nonce and what follows it.
    Sealed(String),
    Plain(Plain),
}

/// Wiped when it is dropped.
#[derive(Clone)]
struct Plain(Zeroizing<String>);

impl Serialize for Plain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

/// When a value was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// For the first time.
    pub created_at: Timestamp,
    /// For the last time.
    pub updated_at: Timestamp,
}

/// Every value that was put. `Default` is an empty one that belongs nowhere.
#[derive(Default)]
pub struct Vault {
    folder: PathBuf,
    key: Option<LessSafeKey>,
    kept: ArcSwap<Kept>,
    /// Held from reading what is kept to having written it.
    writing: Mutex<()>,
}

impl Vault {
    /// Reads the vault of a configuration. Changes nothing.
    ///
    /// # Errors
    /// A key that cannot be had or is another one, and a file that cannot be read.
    pub async fn open(config: &Config, directory: &Path) -> Result<Self, VaultError> {
        let key = match &config.vault_key {
            None => None,
            Some(source) => {
                let raw = secrets::fetch("[vault] key", source, directory).await.map_err(VaultError::Key)?;
                Some(key(&raw)?)
            }
        };
        let folder = directory.join("managed");
        let kept = read(&folder.join(FILE))?;
        let vault = Self { folder, key, kept: ArcSwap::from_pointee(kept), writing: Mutex::new(()) };
        vault.probe()?;
        Ok(vault)
    }

    /// The key opens what it has to open.
    fn probe(&self) -> Result<(), VaultError> {
        let kept = self.kept.load();
        let sealed = kept.secrets.values().any(|entry| matches!(entry.value, Value::Sealed(_)));
        match (&self.key, &kept.probe) {
            (None, None) if !sealed => Ok(()),
            (None, _) => Err(VaultError::NoKey),
            (Some(_), None) if !sealed => Ok(()),
            (Some(_), None) => Err(VaultError::Damaged { line: 0 }),
            (Some(_), Some(probe)) => self.opened(PROBE, probe).map(drop).ok_or(VaultError::WrongKey),
        }
    }

    /// Encrypts what was put before there was a key.
    ///
    /// # Errors
    /// It could not be written: everything is as before.
    pub fn seal_what_is_not(&self) -> Result<(), VaultError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Kept::clone(&self.kept.load());
        if self.key.is_none() || !kept.secrets.values().any(|entry| matches!(entry.value, Value::Plain(_))) {
            return Ok(());
        }
        for (name, entry) in &mut kept.secrets {
            if let Value::Plain(Plain(plain)) = &entry.value {
                entry.value = self.closed(name, plain)?;
            }
        }
        self.write(kept)
    }

    /// A value, for one request.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn get(&self, name: &str) -> Result<Zeroizing<String>, SecretError> {
        let kept = self.kept.load();
        let entry = kept.secrets.get(name).ok_or_else(|| SecretError::VaultEmpty(name.to_owned()))?;
        self.opened(name, &entry.value).ok_or_else(|| SecretError::VaultSealed(name.to_owned()))
    }

    /// When a value was put; `None` when there is none.
    #[must_use]
    pub fn times(&self, name: &str) -> Option<Times> {
        let kept = self.kept.load();
        let entry = kept.secrets.get(name)?;
        Some(Times { created_at: Timestamp(entry.created_at), updated_at: Timestamp(entry.updated_at) })
    }

    /// Keeps a value in place of the one before; durable when this returns. Blocks.
    ///
    /// # Errors
    /// It could not be written: the one before stays.
    pub fn put(&self, name: &str, value: &str, now: Timestamp) -> Result<Times, VaultError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Kept::clone(&self.kept.load());
        let created_at = kept.secrets.get(name).map_or(now.0, |before| before.created_at);
        let entry = Entry { created_at, updated_at: now.0, value: self.closed(name, value)? };
        kept.secrets.insert(name.to_owned(), entry);
        self.write(kept)?;
        Ok(Times { created_at: Timestamp(created_at), updated_at: now })
    }

    /// Keeps a value in place of `held`, and only of that: `false` when another one has been put meanwhile. Durable when
    /// this returns. Blocks.
    ///
    /// # Errors
    /// It could not be written: the one before stays.
    pub fn renew(&self, name: &str, held: &str, value: &str, now: Timestamp) -> Result<bool, VaultError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Kept::clone(&self.kept.load());
        let Some(entry) = kept.secrets.get_mut(name) else { return Ok(false) };
        if self.opened(name, &entry.value).is_none_or(|now_there| secrets::usable(&now_there) != Some(held)) {
            return Ok(false);
        }
        entry.value = self.closed(name, value)?;
        entry.updated_at = now.0;
        self.write(kept)?;
        Ok(true)
    }

    /// Forgets a value; `false` when there was none. Blocks.
    ///
    /// # Errors
    /// It could not be written: the value is still there.
    pub fn remove(&self, name: &str) -> Result<bool, VaultError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Kept::clone(&self.kept.load());
        if kept.secrets.remove(name).is_none() {
            return Ok(false);
        }
        self.write(kept)?;
        Ok(true)
    }

    /// First the file, then what requests see.
    fn write(&self, mut kept: Kept) -> Result<(), VaultError> {
        kept.version = VERSION;
        if self.key.is_some() && kept.probe.is_none() {
            kept.probe = Some(self.closed(PROBE, "")?);
        }
        let text = serde_json::to_vec_pretty(&kept).map(Zeroizing::new).map_err(|_| VaultError::Seal)?;
        durable::write(&self.folder, FILE, &text)
            .map_err(|source| VaultError::File { step: "written", source })?;
        self.kept.store(Arc::new(kept));
        Ok(())
    }

    fn closed(&self, name: &str, value: &str) -> Result<Value, VaultError> {
        let Some(key) = &self.key else {
            return Ok(Value::Plain(Plain(Zeroizing::new(value.to_owned()))));
        };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| VaultError::Seal)?;
        // Room for the tag: what holds the value must not be moved, and left behind, by growing.
        let mut text = Zeroizing::new(Vec::with_capacity(value.len() + AES_256_GCM.tag_len()));
        text.extend_from_slice(value.as_bytes());
        let tag = key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad(name), &mut text)
            .map_err(|_| VaultError::Seal)?;
        Ok(Value::Sealed(STANDARD.encode([&nonce, text.as_slice(), tag.as_ref()].concat())))
    }

    fn opened(&self, name: &str, value: &Value) -> Option<Zeroizing<String>> {
        match value {
            Value::Plain(Plain(plain)) => Some(plain.clone()),
            Value::Sealed(text) => {
                let mut bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
                let (nonce, sealed) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let plain = self.key.as_ref()?.open_in_place(nonce, aad(name), sealed).ok()?;
                std::str::from_utf8(plain).ok().map(|plain| Zeroizing::new(plain.to_owned()))
            }
        }
    }
}

fn aad(name: &str) -> Aad<Vec<u8>> {
    Aad::from([CONTEXT, b"\0", name.as_bytes()].concat())
}

fn read(path: &Path) -> Result<Kept, VaultError> {
    let text = match std::fs::read(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Kept::default()),
        Err(source) => return Err(VaultError::File { step: "read", source }),
    };
    // The reader's own message may quote what it met.
    let kept: Kept =
        serde_json::from_slice(&text).map_err(|error| VaultError::Damaged { line: error.line() })?;
    if kept.version == VERSION { Ok(kept) } else { Err(VaultError::Damaged { line: 0 }) }
}

/// The cipher's key, from key material in hex or base64.
fn key(raw: &str) -> Result<LessSafeKey, VaultError> {
    let material = material(raw.trim()).filter(|material| material.len() >= KEY_BYTES_MIN);
    let material = material.ok_or(VaultError::Material)?;
    let derived = Salt::new(HKDF_SHA256, &[]).extract(&material);
    let derived = derived.expand(&[CONTEXT], &AES_256_GCM).map_err(|_| VaultError::Material)?;
    Ok(LessSafeKey::new(UnboundKey::from(derived)))
}

/// Whatever is hex all through is hex: base64 of random bytes never looks like it.
fn material(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        return (0..text.len()).step_by(2).map(pair).collect::<Option<Vec<u8>>>().map(Zeroizing::new);
    }
    [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD]
        .iter()
        .find_map(|base64| base64.decode(text).ok())
        .map(Zeroizing::new)
}

#[cfg(test)]
mod tests;
