//! Texts with places in them: `refund:{{input.metadata.order_id}}`.
//!
//! Operators write templates for keys, subjects, URLs, headers and bodies. A template is read once, when the
//! configuration is; rendering places scalars as they were written and never a secret.

use std::fmt;

use serde_json::Value;

use crate::json::{excerpt, get, plain_decimal};

/// Longest template in bytes.
pub const MAX_TEMPLATE: usize = 64 * 1024;

/// One part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands for itself.
    Text(String),
    /// `{{input.a.b}}`: the dotted path below `input`.
    Input(String),
    /// `{{secret:NAME}}`: placed by the proxy for its hosts, never rendered here.
    Secret(String),
    /// `{{effect.id}}`.
    EffectId,
    /// `{{effect.key}}`: the provider key of the effect.
    EffectKey,
    /// `{{response.a.b}}`: the dotted path below the provider's recorded answer.
    Response(String),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateFault {
    /// `{{` without `}}`.
    #[error("a placeholder opens with {{{{ and never closes: `{text}`")]
    Unclosed {
        /// Where it opens, cut.
        text: String,
    },
    /// A placeholder of no known kind.
    #[error(
        "unknown placeholder `{text}`: known are {{{{input.NAME}}}}, {{{{secret:NAME}}}}, {{{{effect.id}}}}, \
         {{{{effect.key}}}} and {{{{response.NAME}}}}"
    )]
    Unknown {
        /// What stands between the braces, cut.
        text: String,
    },
    /// A path or a secret's name with empty parts or characters that none has.
    #[error("`{text}` is not a name: use letters, digits, - and _, and dots between the parts of a path")]
    Name {
        /// The name, cut.
        text: String,
    },
    /// Over [`MAX_TEMPLATE`] bytes.
    #[error("the template is longer than 65536 bytes")]
    TooLong,
}

/// Why a template has no text for this request. The path is cut to 64 characters; values are never shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderFault {
    /// Nothing at the path, or no such thing as an answer or an effect yet.
    #[error("`{path}` is needed and absent")]
    Absent {
        /// The dotted path, with its root.
        path: String,
    },
    /// `null` at the path.
    #[error("`{path}` is needed and null")]
    Null {
        /// The dotted path, with its root.
        path: String,
    },
    /// The empty text at the path.
    #[error("`{path}` is needed and empty")]
    Empty {
        /// The dotted path, with its root.
        path: String,
    },
    /// An object or a list at the path.
    #[error("`{path}` must be a text, a number or a boolean")]
    NotScalar {
        /// The dotted path, with its root.
        path: String,
    },
    /// A secret, which only the proxy places.
    #[error("the secret `{name}` cannot stand here")]
    Secret {
        /// The secret's name, never its value.
        name: String,
    },
    /// A value that would change the structure of a URL path (RFC 3986 section 3.3).
    #[error(
        "`{path}` cannot stand in a URL path: it is a dot segment or contains a slash, a semicolon, a control \
         character or a percent escape"
    )]
    UrlSegment {
        /// The dotted path, with its root.
        path: String,
    },
}

/// What a template is rendered from.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The action's input.
    pub input: &'a Value,
    /// The effect, once there is one.
    pub effect_id: Option<&'a str>,
    /// The provider key of the effect, once there is one.
    pub effect_key: Option<&'a str>,
    /// The provider's recorded answer, once there is one.
    pub response: Option<&'a Value>,
}

impl<'a> Scope<'a> {
    /// A scope with nothing but an input, as it is before admission.
    #[must_use]
    pub fn of_input(input: &'a Value) -> Self {
        Self { input, effect_id: None, effect_key: None, response: None }
    }
}

/// A template that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// A template of one piece.
    #[must_use]
    pub fn of_piece(piece: Piece) -> Self {
        Self { pieces: vec![piece] }
    }

    /// Reads a template of at most 64 KiB. White space just inside the braces is ignored; `}}` outside of a
    /// placeholder stands for itself.
    pub fn parse(text: &str) -> Result<Self, TemplateFault> {
        if text.len() > MAX_TEMPLATE {
            return Err(TemplateFault::TooLong);
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let (before, opened) = rest.split_at(at);
            let unclosed = || TemplateFault::Unclosed { text: excerpt(opened) };
            let (inside, after) =
                opened.strip_prefix("{{").and_then(|o| o.split_once("}}")).ok_or_else(unclosed)?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(placeholder(inside.trim())?);
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    /// A template of parts that were read before.
    pub(crate) fn from_pieces(pieces: Vec<Piece>) -> Self {
        Self { pieces }
    }

    /// The parts in order; none for the empty template.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The only part, if there is exactly one.
    #[must_use]
    pub fn only_piece(&self) -> Option<&Piece> {
        match self.pieces.as_slice() {
            [piece] => Some(piece),
            _ => None,
        }
    }

    /// The text for one request. Every placeholder must name a text that is not empty, a number (placed as
    /// written) or a boolean.
    pub fn render(&self, scope: &Scope<'_>) -> Result<String, RenderFault> {
        self.render_encoded(scope, str::to_owned)
    }

    /// The text as identity compares it: a number by its value, however it was written. `42`, `42.0` and `4.2e1` are
    /// one order number, and the provider reads them as one.
    pub fn render_identity(&self, scope: &Scope<'_>) -> Result<String, RenderFault> {
        let mut out = String::new();
        for piece in &self.pieces {
            match (piece, piece.as_input().and_then(|path| get(scope.input, path))) {
                (_, Some(Value::Number(number))) => out.push_str(&plain_decimal(number.as_str())),
                (_, _) => out.push_str(&piece.resolve(scope)?),
            }
        }
        Ok(out)
    }

    /// The text for one request, with `encode` applied to every placed value and not to the template's own
    /// text.
    pub fn render_encoded(
        &self,
        scope: &Scope<'_>,
        encode: fn(&str) -> String,
    ) -> Result<String, RenderFault> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Input(_)
                | Piece::Secret(_)
                | Piece::EffectId
                | Piece::EffectKey
                | Piece::Response(_) => out.push_str(&encode(&piece.resolve(scope)?)),
            }
        }
        Ok(out)
    }

    /// The dotted paths of the input members, in order of appearance.
    #[must_use]
    pub fn inputs(&self) -> Vec<&str> {
        self.pieces.iter().filter_map(Piece::as_input).collect()
    }

    /// The names of the secrets, in order of appearance.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        self.pieces.iter().filter_map(Piece::as_secret).collect()
    }

    /// Whether it is the same text for every request.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Input(_) | Piece::Secret(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => {
                write!(f, "{{{{{}}}}}", piece.name())
            }
        })
    }
}

impl Piece {
    /// The dotted path, if this is a placeholder for an input member.
    #[must_use]
    pub fn as_input(&self) -> Option<&str> {
        match self {
            Piece::Input(path) => Some(path),
            Piece::Text(_) | Piece::Secret(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => {
                None
            }
        }
    }

    /// The name, if this is a placeholder for a secret.
    #[must_use]
    pub fn as_secret(&self) -> Option<&str> {
        match self {
            Piece::Secret(name) => Some(name),
            Piece::Text(_) | Piece::Input(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => {
                None
            }
        }
    }

    /// The text of this part for one request.
    pub(crate) fn resolve(&self, scope: &Scope<'_>) -> Result<String, RenderFault> {
        match self {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Secret(name) => Err(RenderFault::Secret { name: excerpt(name) }),
            Piece::Input(path) => self.scalar(get(scope.input, path)),
            Piece::Response(path) => self.scalar(scope.response.and_then(|answer| get(answer, path))),
            Piece::EffectId => self.text(scope.effect_id),
            Piece::EffectKey => self.text(scope.effect_key),
        }
    }

    /// The part as it stands between braces, for faults; the text itself for text.
    pub(crate) fn name(&self) -> String {
        match self {
            Piece::Text(text) => text.clone(),
            Piece::Input(path) => format!("input.{path}"),
            Piece::Secret(name) => format!("secret:{name}"),
            Piece::EffectId => "effect.id".to_owned(),
            Piece::EffectKey => "effect.key".to_owned(),
            Piece::Response(path) => format!("response.{path}"),
        }
    }

    fn path(&self) -> String {
        excerpt(&self.name())
    }

    fn text(&self, found: Option<&str>) -> Result<String, RenderFault> {
        match found {
            None => Err(RenderFault::Absent { path: self.path() }),
            Some("") => Err(RenderFault::Empty { path: self.path() }),
            Some(text) => Ok(text.to_owned()),
        }
    }

    fn scalar(&self, found: Option<&Value>) -> Result<String, RenderFault> {
        match found {
            None => Err(RenderFault::Absent { path: self.path() }),
            Some(Value::Null) => Err(RenderFault::Null { path: self.path() }),
            Some(Value::String(text)) => self.text(Some(text)),
            Some(Value::Number(number)) => Ok(number.as_str().to_owned()),
            Some(Value::Bool(truth)) => Ok(truth.to_string()),
            Some(Value::Array(_) | Value::Object(_)) => Err(RenderFault::NotScalar { path: self.path() }),
        }
    }
}

fn placeholder(inside: &str) -> Result<Piece, TemplateFault> {
    match inside {
        "effect.id" => return Ok(Piece::EffectId),
        "effect.key" => return Ok(Piece::EffectKey),
        _ => {}
    }
    if let Some(path) = inside.strip_prefix("input.") {
        return dotted(path).map(Piece::Input);
    }
    if let Some(path) = inside.strip_prefix("response.") {
        return dotted(path).map(Piece::Response);
    }
    if let Some(name) = inside.strip_prefix("secret:") {
        return if is_name(name) { Ok(Piece::Secret(name.to_owned())) } else { Err(bad_name(name)) };
    }
    Err(TemplateFault::Unknown { text: excerpt(inside) })
}

fn dotted(path: &str) -> Result<String, TemplateFault> {
    if path.split('.').all(is_name) { Ok(path.to_owned()) } else { Err(bad_name(path)) }
}

/// A part of a path. Letters of any script: input members are not ours to name.
fn is_name(part: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '$' | '@');
    !part.is_empty() && part.chars().all(good)
}

fn bad_name(text: &str) -> TemplateFault {
    TemplateFault::Name { text: excerpt(text) }
}
