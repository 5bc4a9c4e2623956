//! Where `effects`, `effect show`, `limits` and `audit verify` read: the API of a running sidecar, or its database directly,
//! which works whether it runs or not. Both give the same JSON.

use std::path::{Path, PathBuf};

use hyper::Method;
use oncegate_policy::action::ActionName;
use oncegate_policy::id::EffectId;
use oncegate_store::error::OpenError;
use oncegate_store::read::{EffectFilter, Reader};
use serde::Serialize;
use serde_json::Value;

use super::client::{Api, expect_data};
use super::exit::{Stop, chain};
use super::pages::{Listed, Part};
use super::{Common, print, visible};
use crate::clock::Clock;
use crate::control::actions::ID_PREFIX;
use crate::control::show;

/// Where to read.
pub(crate) enum Source {
    /// A running sidecar.
    Api(Api),
    /// Its database.
    Database(Reader),
}

type Connect = fn(&Path) -> Result<Reader, OpenError>;

/// Which effects are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) unresolved: bool,
    pub(crate) action: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) part: Part,
}

impl Source {
    /// `--db`, else the API with `ONCEGATE_KEY`, else the database of the configuration.
    pub(crate) fn choose(common: &Common, database: Option<&Path>) -> Result<Self, Stop> {
        Self::by(common, database, Reader::open)
    }

    /// The same for [`Source::chain`] alone: also of a database of an earlier version, as a backup of before an upgrade is.
    pub(crate) fn of_chain(common: &Common, database: Option<&Path>) -> Result<Self, Stop> {
        Self::by(common, database, Reader::open_chain)
    }

    fn by(common: &Common, database: Option<&Path>, connect: Connect) -> Result<Self, Stop> {
        let open = |path: &Path| open(path, connect);
        if let Some(path) = database {
            return open(path).map(Self::Database);
        }
        if let Some(key) = api_key() {
            return Api::new(common, key).map(Self::Api);
        }
        let wants_key = "set ONCEGATE_KEY to a key of the sidecar, or read its database with --db";
        if std::env::var_os("ONCEGATE_URL").is_some() {
            return Err(Stop::usage(format!("ONCEGATE_URL is set, but no key: {wants_key}")));
        }
        let path = super::load(common)?.database();
        match open(&path) {
            Ok(reader) => {
                print::note(&format!("ONCEGATE_KEY is not set: reading {} directly", path.display()));
                Ok(Self::Database(reader))
            }
            Err(stop) => Err(Stop::usage(format!("{}\n{wants_key}", stop.message))),
        }
    }

    /// Effects, newest first, as the API's list has them.
    pub(crate) async fn effects(&self, wanted: &Wanted) -> Result<Listed, Stop> {
        let page = async |limit, offset| match self {
            Self::Api(api) => api.page("/actions/effects", &wanted.filters(), limit, offset).await,
            Self::Database(reader) => {
                let filter = wanted.filter(reader, limit, offset).await?;
                let found = reader.list(filter).await.map_err(|error| unreadable(&error))?;
                Ok((value(&found.effects.iter().map(show::effect).collect::<Vec<_>>())?, found.total))
            }
        };
        wanted.part.read(wanted.unresolved, page).await
    }

    /// One effect with everything that is known of it.
    pub(crate) async fn effect(&self, id: &EffectId) -> Result<Value, Stop> {
        match self {
            Self::Api(api) => expect_data(api.call(Method::GET, &format!("/actions/effects/{id}")).await?),
            Self::Database(reader) => match reader.effect(id).await.map_err(|error| unreadable(&error))? {
                Some(detail) => value(&show::detail(&detail)),
                None => Err(Stop::usage(format!("there is no effect {id}"))),
            },
        }
    }

    /// Every limit that counts.
    pub(crate) async fn limits(&self) -> Result<Value, Stop> {
        match self {
            Self::Api(api) => expect_data(api.call(Method::GET, "/impact-limits").await?),
            Self::Database(reader) => {
                let now = Clock::System.now();
                let limits = reader.exposures(now).await.map_err(|error| unreadable(&error))?;
                let counting = limits.iter().filter(|limit| limit.archived_at.is_none());
                value(&counting.map(show::limit).collect::<Vec<_>>())
            }
        }
    }

    /// What a check of the whole evidence chain found.
    pub(crate) async fn chain(&self) -> Result<Value, Stop> {
        match self {
            Self::Api(api) => expect_data(api.call(Method::GET, "/audit/verify").await?),
            Self::Database(reader) => {
                let report = reader.verify_chain().await.map_err(|error| unreadable(&error))?;
                Ok(show::chain(&report))
            }
        }
    }
}

impl Wanted {
    /// As further parameters.
    fn filters(&self) -> String {
        let mut filters = String::new();
        let mut add = |name: &str, value: &str| {
            let value = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
            filters.push_str(&format!("&{name}={value}"));
        };
        if self.unresolved {
            add("unresolved", "true");
        }
        if let Some(action) = &self.action {
            add("action", action);
        }
        if let Some(key) = &self.key {
            add("key", key);
        }
        filters
    }

    async fn filter(&self, reader: &Reader, limit: u32, offset: u32) -> Result<EffectFilter, Stop> {
        let action = match &self.action {
            Some(text) => Some(named(reader, text).await?),
            None => None,
        };
        Ok(EffectFilter {
            action,
            unresolved: self.unresolved.then_some(true),
            key: self.key.clone(),
            limit,
            offset,
            ..EffectFilter::default()
        })
    }
}

/// The action that is meant, by its name or its id. The API asks its configuration which of the two it is; the record is
/// asked whether it knows an action whose name looks like an id.
async fn named(reader: &Reader, text: &str) -> Result<ActionName, Stop> {
    let by_id = text.strip_prefix(ID_PREFIX).and_then(ActionName::parse);
    match (ActionName::parse(text), by_id) {
        (Some(whole), Some(by_id)) => {
            let filter = EffectFilter { action: Some(whole.clone()), limit: 1, ..EffectFilter::default() };
            let found = reader.list(filter).await.map_err(|error| unreadable(&error))?;
            Ok(if found.total > 0 { whole } else { by_id })
        }
        (Some(name), None) | (None, Some(name)) => Ok(name),
        (None, None) => Err(Stop::usage(format!("`{text}` is no action's name"))),
    }
}

/// The key for the API, if the environment has one.
pub(crate) fn api_key() -> Option<String> {
    std::env::var("ONCEGATE_KEY").ok().filter(|key| !key.is_empty())
}

/// The API, for what only a running sidecar can do.
pub(crate) fn api(common: &Common) -> Result<Api, Stop> {
    let key = api_key().ok_or_else(|| Stop::usage("set ONCEGATE_KEY to a key of the sidecar"))?;
    Api::new(common, key)
}

/// Reads a document that the API or the database gave into its shape, to be shown to a person: what agents and providers
/// wrote in it is made visible.
pub(crate) fn shaped<T: serde::de::DeserializeOwned>(document: &Value) -> Result<T, Stop> {
    T::deserialize(visible::document(document)).map_err(|error| {
        Stop::failed(format!("the sidecar answered in a shape that this version does not know: {error}"))
    })
}

fn open(path: &Path, connect: Connect) -> Result<Reader, Stop> {
    let missing = |path: PathBuf| Stop::usage(format!("there is no database {}", path.display()));
    if !path.exists() {
        return Err(missing(path.to_owned()));
    }
    connect(path).map_err(|error| Stop::usage(chain(&error)))
}

fn unreadable(error: &dyn std::error::Error) -> Stop {
    Stop::failed(format!("cannot read the database: {}", chain(error)))
}

fn value<T: Serialize>(shape: &T) -> Result<Value, Stop> {
    serde_json::to_value(shape).map_err(|error| Stop::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_escaped() {
        let wanted = Wanted { unresolved: true, key: Some("refund:4 2&x".into()), ..Wanted::default() };
        assert_eq!(wanted.filters(), "&unresolved=true&key=refund%3A4%202%26x");
    }
}
