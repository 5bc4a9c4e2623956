//! Templates, and what may stand in which of them.

use oncegate_policy::template::{Piece, Template};

use crate::reader::Node;
use crate::value::text;

/// What a template may hold besides text.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    input: bool,
    secret: bool,
    effect: bool,
    response: bool,
    /// Why nothing else.
    why: &'static str,
}

impl Allowed {
    /// Keys and subjects, which are made before there is an effect.
    pub(crate) const IDENTITY: Self = Self {
        input: true,
        secret: false,
        effect: false,
        response: false,
        why: "only the input can identify",
    };
    /// A host's credential.
    pub(crate) const CREDENTIAL: Self = Self {
        input: false,
        secret: true,
        effect: false,
        response: false,
        why: "a credential holds only secrets",
    };
    /// A request that makes an effect.
    pub(crate) const WRITE: Self =
        Self { input: true, secret: true, effect: true, response: false, why: "there is no answer yet" };
    /// A request that makes no effect.
    pub(crate) const UNGOVERNED: Self =
        Self { input: true, secret: true, effect: false, response: false, why: "the action makes no effect" };
    /// A read-back.
    pub(crate) const LOOK: Self = Self {
        input: true,
        secret: false,
        effect: true,
        response: true,
        why: "a read-back carries the host's credential and no other secret",
    };

    fn allows(&self, piece: &Piece) -> bool {
        match piece {
            Piece::Text(_) => true,
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
    for piece in template.pieces().iter().filter(|piece| !allowed.allows(piece)) {
        let piece = spelled(piece);
        node.fault(format!("{} cannot hold `{piece}`: {}", node.what, allowed.why));
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
