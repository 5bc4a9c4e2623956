//! `managed/actions.toml` while it is changed: read, judged with the whole configuration, written, taken, and its
//! versions recorded.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncegate_policy::action::ActionName;
use serde_json::{Value, json};
use toml::Table;

use super::answer::{ApiError, ErrorCode};
use super::auth::Asker;
use super::{actions, show};
use crate::definition::Problem;
use crate::definition::faults::Places;
use crate::definition::file::{DEFINITIONS_MAX, Defined, FILE};
use crate::definition::versions::{Said, Version, Versions};
use crate::editions::Editing;
use crate::load;
use crate::reload::{ManagedEdit, Prepared, ReplaceError, Turn};
use crate::state::Sidecar;
use crate::taken_over::{self, TakenOver};

/// What stands under a name.
pub(super) enum Standing<'a> {
    Nothing,
    /// Made through the API.
    Managed(&'a Table),
    /// Written by a person.
    ByHand,
}

/// A change of the file. From its first read on, nobody else changes the configuration.
pub(super) struct Edit<'a> {
    sidecar: &'a Arc<Sidecar>,
    turn: Turn<'a>,
    folder: PathBuf,
    /// What the file says before the change.
    before: Defined,
    /// What it is to say.
    pub(super) defined: Defined,
}

/// Entries whose versions are recorded: name, TOML, and what the API shows.
type Recorded = Vec<(ActionName, String, Value)>;

impl<'a> Edit<'a> {
    pub(super) async fn begin(sidecar: &'a Arc<Sidecar>) -> Result<Self, ApiError> {
        const STEP: &str = "read the managed actions";
        let turn = Turn::take(sidecar).await;
        let folder = load::managed_folder(sidecar.files.path());
        let file = folder.join(FILE);
        let read = move || match std::fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            read => read,
        };
        let text = blocking(STEP, read).await?;
        let before = Defined::read(&text).map_err(|error| ApiError::internal(STEP, &error))?;
        Ok(Self { sidecar, turn, folder, defined: before.clone(), before })
    }

    pub(super) fn standing(&self, name: &ActionName) -> Standing<'_> {
        match self.defined.get(name.as_str()) {
            Some(entry) => Standing::Managed(entry),
            None if self.sidecar.snapshot().config.actions.contains_key(name) => Standing::ByHand,
            None => Standing::Nothing,
        }
    }

    /// The entry of an action that was made through the API.
    pub(super) fn managed(&self, name: &ActionName) -> Result<&Table, ApiError> {
        match self.standing(name) {
            Standing::Managed(entry) => Ok(entry),
            Standing::ByHand => Err(by_hand(name)),
            Standing::Nothing => Err(ApiError::not_found("action")),
        }
    }

    /// One definition as it is in force.
    pub(super) fn shown(&self, name: &ActionName) -> Result<Value, ApiError> {
        let snapshot = self.sidecar.snapshot();
        let action = snapshot.config.actions.get(name).ok_or_else(|| ApiError::not_found("action"))?;
        Ok(actions::shown(action))
    }

    /// Judges the file as it is to be, and leaves no trace. Gives the requests that it would take from other actions
    /// whose effects are open.
    pub(super) async fn judge(&self) -> Result<Vec<TakenOver>, Refused> {
        let prepared = self.turn.prepare(self.edits()?).await.map_err(|error| self.refused(error))?;
        self.taken_over(&prepared).await.map_err(Refused::Other)
    }

    async fn taken_over(&self, prepared: &Prepared) -> Result<Vec<TakenOver>, ApiError> {
        let between =
            taken_over::between(&self.sidecar.store, &self.sidecar.snapshot(), prepared.snapshot()).await;
        between.map_err(|error| ApiError::internal("read what is not settled", &error))
    }

    /// Judges, writes and takes the file as it is to be, and records the versions of what was changed. Gives the doubts
    /// that are new, by action.
    pub(super) async fn take(
        &mut self,
        asker: &Asker,
        changed: &[&ActionName],
        editing: Editing<'_>,
    ) -> Result<Vec<(String, String)>, ApiError> {
        let prepared = self.turn.prepare(self.edits()?).await.map_err(|error| self.refused(error))?;
        if let Some(one) = self.taken_over(&prepared).await?.first() {
            return Err(takes_over(one));
        }
        // What somebody has written past the API gets its version before it is gone.
        self.write_versions(self.recorded(&self.before, changed)?, None).await?;
        self.have_room(changed).await?;
        let reloaded = self.turn.write_and_finish(prepared, editing).await?;
        let recorded = self.record(asker, changed).await;
        recorded.map_err(|error| error.but("The change is in force all the same."))?;
        let places = Places::of(&self.text()?);
        let ours = reloaded.warnings.iter().filter(|warning| is_ours(&warning.file));
        let said = ours.filter_map(|warning| places.problem(warning));
        Ok(said.map(|(action, problem)| (action.to_owned(), problem.message)).collect())
    }

    /// Records the versions of actions as they are in force.
    pub(super) async fn record(&self, asker: &Asker, changed: &[&ActionName]) -> Result<(), ApiError> {
        let at = show::moment(self.sidecar.clock.now());
        let by = Some((asker.name.as_str().to_owned(), at));
        self.write_versions(self.recorded(&self.defined, changed)?, by).await
    }

    fn recorded(&self, defined: &Defined, changed: &[&ActionName]) -> Result<Recorded, ApiError> {
        let there = changed.iter().filter_map(|name| Some((*name, defined.get(name.as_str())?)));
        there.map(|(name, entry)| Ok((name.clone(), entry.to_string(), self.shown(name)?))).collect()
    }

    async fn write_versions(&self, said: Recorded, by: Option<(String, String)>) -> Result<(), ApiError> {
        let folder = self.folder.clone();
        let write = move || {
            for (name, entry, definition) in &said {
                let by = by.as_ref().map(|(author, at)| (author.as_str(), at.as_str()));
                let mut versions = Versions::of(&folder, name)?;
                if !versions.record(&Said { entry, definition, by })? {
                    return Ok(Some(name.clone()));
                }
            }
            Ok(None)
        };
        match blocking("record the versions of an action", write).await? {
            None => Ok(()),
            Some(name) => Err(full(&name)),
        }
    }

    /// Refuses what could be taken and its version not be kept: afterwards it is in force, whatever is answered.
    async fn have_room(&self, changed: &[&ActionName]) -> Result<(), ApiError> {
        let entry = |name: &ActionName| Some((name.clone(), self.defined.get(name.as_str())?.to_string()));
        let entries: Vec<_> = changed.iter().filter_map(|name| entry(name)).collect();
        let folder = self.folder.clone();
        let look = move || {
            for (name, entry) in entries {
                if !Versions::of(&folder, &name)?.has_room_for(&entry) {
                    return Ok(Some(name));
                }
            }
            Ok(None)
        };
        match blocking("read the versions of an action", look).await? {
            None => Ok(()),
            Some(name) => Err(full(&name)),
        }
    }

    /// The versions of an action, oldest first.
    pub(super) async fn versions(&self, name: &ActionName) -> Result<Vec<Version>, ApiError> {
        let definition = self.shown(name)?;
        let entry = self.defined.get(name.as_str()).map(ToString::to_string).unwrap_or_default();
        let (folder, name) = (self.folder.clone(), name.clone());
        let read = move || {
            // One that a person has written has no entry of ours: what was recorded under its name came before it.
            let said = Said { entry: &entry, definition: &definition, by: None };
            Versions::of(&folder, &name).map(|versions| versions.shown(&said))
        };
        blocking("read the versions of an action", read).await
    }

    fn text(&self) -> Result<String, ApiError> {
        self.defined.text().map_err(|error| ApiError::internal("write the managed actions", &error))
    }

    fn edits(&self) -> Result<Vec<ManagedEdit>, Refused> {
        let text = self.text().map_err(Refused::Other)?;
        let bytes_max = usize::try_from(load::FILE_BYTES_MAX).unwrap_or(usize::MAX);
        if self.defined.names().len() > DEFINITIONS_MAX || text.len() > bytes_max {
            let message = format!(
                "the API keeps at most {DEFINITIONS_MAX} definitions, in at most {bytes_max} bytes. Nothing was changed."
            );
            let full = ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "full" }));
            return Err(Refused::Other(full));
        }
        Ok(vec![ManagedEdit { file: FILE, text: Some(text) }])
    }

    fn refused(&self, error: ReplaceError) -> Refused {
        let ReplaceError::Faults(faults) = error else { return Refused::Other(error.into()) };
        let text = match self.text() {
            Ok(text) => text,
            Err(error) => return Refused::Other(error),
        };
        let places = Places::of(&text);
        let ours =
            faults.iter().filter(|fault| is_ours(&fault.file)).filter_map(|fault| places.problem(fault));
        let found: Vec<_> = ours.map(|(action, problem)| (action.to_owned(), problem)).collect();
        if !found.is_empty() {
            return Refused::Faulty(found);
        }
        let said: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        let message = format!(
            "the rest of the configuration does not allow it: {}. Nothing was changed.",
            said.join("; ")
        );
        let details = json!({ "reason": "named_elsewhere" });
        Refused::Other(ApiError::new(ErrorCode::Conflict, message).with_details(details))
    }
}

fn full(name: &ActionName) -> ApiError {
    let message = format!(
        "{name} has as many versions as are kept: an operator has to move managed/versions/{name} away. \
         Nothing was changed."
    );
    ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "full" }))
}

/// What recognises a repeat is held while effects are open, whichever way it would be taken.
pub(super) fn takes_over(one: &TakenOver) -> ApiError {
    let message = format!("{} Nothing was changed.", one.sentence());
    let details = json!({ "reason": "open_effects", "open": one.open, "action": one.from.as_str() });
    ApiError::new(ErrorCode::Conflict, message).with_details(details)
}

fn is_ours(file: &str) -> bool {
    Path::new(file).ends_with(Path::new("managed").join(FILE))
}

/// Why the file is not taken.
pub(super) enum Refused {
    /// Its own entries are faulty: by action.
    Faulty(Vec<(String, Problem)>),
    /// Anything else.
    Other(ApiError),
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Faulty(found) => faulty(found.into_iter().map(|(_, problem)| problem).collect()),
            Refused::Other(error) => error,
        }
    }
}

/// Work that waits for a disk or takes its time, where it holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    step: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| ApiError::internal(step, &error)),
        Err(error) => Err(ApiError::internal(step, &error)),
    }
}

/// A definition that cannot be taken, with everything that is wrong with it.
pub(super) fn faulty(problems: Vec<Problem>) -> ApiError {
    let first = problems.first().map(|problem| problem.message.as_str()).unwrap_or_default();
    let message = format!("the definition is faulty: {first}. Nothing was changed.");
    ApiError::new(ErrorCode::Validation, message).with_details(json!(problems))
}

/// What a person has written is changed where it was written.
pub(super) fn by_hand(name: &ActionName) -> ApiError {
    let message = format!(
        "action {name} is declared in the configuration: change it there, [actions.{name}]. Nothing was changed."
    );
    ApiError::new(ErrorCode::Conflict, message).with_details(json!({ "reason": "declared_in_file" }))
}
