//! Templates, and what may stand in which of them.

use oncegate_policy::template::{Piece, Template};

use crate::reader::Node;
use crate::value::text;

/// What a template may hold besides text: for each kind of placeholder, why not, or nothing if it may stand.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    input: Option<&'static str>,
    secret: Option<&'static str>,
    effect: Option<&'static str>,
    response: Option<&'static str>,
}

impl Allowed {
    /// Keys and subjects, which are made before there is an effect.
    pub(crate) const IDENTITY: Self = Self {
        input: None,
        secret: Some("a secret identifies nothing"),
        effect: Some("it is made before there is an effect"),
        response: Some("there is no answer yet"),
    };
    /// A host's credential.
    pub(crate) const CREDENTIAL: Self = Self {
        input: Some("a credential is the same for every request"),
        secret: None,
        effect: Some("a credential is the same for every request"),
        response: Some("a credential is the same for every request"),
    };
    /// URL and headers of a request.
    pub(crate) const WRITE: Self =
        Self { input: None, secret: None, effect: None, response: Some("there is no answer yet") };
    /// The body of a request: what was judged and recorded is what is sent, so no secret is added to it.
    pub(crate) const BODY: Self =
        Self { secret: Some("secrets go into headers and the host's credential"), ..Self::WRITE };
    /// A read-back.
    pub(crate) const LOOK: Self = Self {
        input: None,
        secret: Some("a read-back carries the host's credential and no other secret"),
        effect: None,
        response: None,
    };

    /// The same, for an action that makes no effect.
    pub(crate) fn without_effect(self) -> Self {
        Self { effect: Some("the action is not governed: it makes no effect"), ..self }
    }

    fn why_not(&self, piece: &Piece) -> Option<&'static str> {
        match piece {
            Piece::Text(_) => None,
            Piece::Input(_) => self.input,
            Piece::Secret(_) => self.secret,
            Piece::EffectId | Piece::EffectKey => self.effect,
            Piece::Response(_) => self.response,
        }
    }
}

/// Reads a template in which only some placeholders make sense.
pub(crate) fn template(node: &Node<'_>, allowed: Allowed) -> Option<Template> {
    parse(node, text(node)?, allowed)
}

/// Reads a template from a text that stands at `node`.
pub(crate) fn parse(node: &Node<'_>, written: &str, allowed: Allowed) -> Option<Template> {
    let template = match Template::parse(written) {
        Ok(template) => template,
        Err(fault) => {
            node.fault(format!("{}: {fault}", node.what));
            return None;
        }
    };
    for piece in template.pieces() {
        if let Some(why) = allowed.why_not(piece) {
            node.fault(format!("{} cannot hold `{}`: {why}", node.what, spelled(piece)));
        }
    }
    Some(template)
}

/// A placeholder as it is written.
fn spelled(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => text.clone(),
        Piece::Input(path) => format!("{{{{input.{path}}}}}"),
        Piece::Secret(name) => format!("{{{{secret:{name}}}}}"),
        Piece::EffectId => "{{effect.id}}".to_owned(),
        Piece::EffectKey => "{{effect.key}}".to_owned(),
        Piece::Response(path) => format!("{{{{response.{path}}}}}"),
    }
}

/// Whether some placeholder answers to `wanted`.
pub(crate) fn has(template: &Template, wanted: impl Fn(&Piece) -> bool) -> bool {
    template.pieces().iter().any(wanted)
}
