//! Conditions on a value: `when` on an input, `match` on a read-back, `succeeded_when` on an answer.

use serde_json::Value;

use crate::json::{canonical, get, select};
use crate::template::{Piece, Scope, Template};

/// What a selected value is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// A value that stands in the configuration.
    Literal(Value),
    /// A text with placeholders; one that cannot be rendered equals nothing.
    Template(Template),
}

/// One condition.
///
/// Values are compared in their canonical spelling, so the form text `120` equals the number `120`, and
/// `1.0` equals `1` where both are numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// A dotted path; `*` stands for any item of a list.
    pub path: String,
    /// What some selected value must equal; without it, it is enough that something is there. On an answer, `null` and
    /// what is empty (`[]`, `{}`, `""`) is nothing: APIs leave members out and give such ones alike.
    pub equals: Option<Expected>,
    /// Turns the condition round: nothing selected may equal it, or nothing may be selected at all.
    pub absent: bool,
}

impl Check {
    /// Whether the condition holds for `root`.
    ///
    /// An expectation that cannot be rendered leaves the question open, and an open question never holds,
    /// not even an `absent` one. Neither does one whether there is something, where only `false` or `0` is: one API means
    /// by it that there is none, the next that there is this.
    #[must_use]
    pub fn holds(&self, root: &Value, scope: &Scope<'_>) -> bool {
        if self.equals.is_some() {
            return self.holds_at(root, &self.path, scope);
        }
        let there = select(root, &self.path).into_iter().map(presence).max().unwrap_or(Presence::Nothing);
        match there {
            Presence::Something => !self.absent,
            Presence::Open => false,
            Presence::Nothing => self.absent,
        }
    }

    /// Whether `root` says anything on the question: an `absent` one on the items of a list (`*`) needs that list. What has no
    /// such list, as an error has none, is no list without the item. None of one answer is whole below two `*`.
    #[must_use]
    pub fn is_answered_by(&self, root: &Value) -> bool {
        let Some(list) = self.absent_from() else { return true };
        // A list in each item of a list can have more pages of its own, which nobody has looked at.
        if self.path.matches('*').count() > 1 {
            return false;
        }
        let list = if list.is_empty() { Some(root) } else { get(root, list) };
        list.is_some_and(Value::is_array)
    }

    /// The dotted path of the list (empty for the whole answer) among whose items an `absent` condition looks for its own.
    #[must_use]
    pub fn absent_from(&self) -> Option<&str> {
        let (before, _) = self.path.split_once('*').filter(|_| self.absent)?;
        Some(before.trim_end_matches('.'))
    }

    /// Whether the condition holds for an action's input, where the path may be written with or without
    /// `input.` before it.
    #[must_use]
    pub fn holds_for_input(&self, input: &Value) -> bool {
        self.holds_at(input, self.input_path(), &Scope::of_input(input))
    }

    /// Whether an input says where the condition looks what some servers take for one thing and others for another: whether
    /// there is something, where `null`, what is empty, `false` or 0 stands, also as text; whether it is `true`, where a number
    /// or another text does.
    pub(crate) fn is_unclear_in(&self, input: &Value) -> bool {
        select(input, self.input_path()).into_iter().any(|value| match &self.equals {
            None => !is_plainly_there(value),
            Some(Expected::Literal(Value::Bool(wanted))) => is_cast(value, *wanted),
            Some(Expected::Literal(Value::String(wanted))) if wanted == "true" || wanted == "false" => {
                is_cast(value, wanted == "true")
            }
            Some(Expected::Literal(_) | Expected::Template(_)) => false,
        })
    }

    /// What the condition comes to for every input that says at least what `part` says; `None` if it depends on the
    /// rest. Objects can have more members there; texts, numbers and lists are as they stand.
    #[must_use]
    pub fn settled_by(&self, part: &Value) -> Option<bool> {
        let selected = select(part, self.input_path());
        if selected.is_empty() {
            return None;
        }
        let Some(expected) = &self.equals else { return Some(!self.absent) };
        let scope = Scope::of_input(part);
        let whole = !selected.into_iter().any(Value::is_object) && expected.canonical(&scope).is_some();
        whole.then(|| self.holds_for_input(part))
    }

    /// The path below the input.
    pub(crate) fn input_path(&self) -> &str {
        self.path.strip_prefix("input.").unwrap_or(&self.path)
    }

    /// Whether both ask the same question of an input, however they are written.
    pub(crate) fn asks_the_same_as(&self, other: &Self) -> bool {
        self.input_path() == other.input_path()
            && self.absent == other.absent
            && self.expects_the_same_as(other)
    }

    /// Whether both compare with the same value.
    pub(crate) fn expects_the_same_as(&self, other: &Self) -> bool {
        match (&self.equals, &other.equals) {
            (Some(Expected::Literal(a)), Some(Expected::Literal(b))) => canonical(a) == canonical(b),
            (a, b) => a == b,
        }
    }

    fn holds_at(&self, root: &Value, path: &str, scope: &Scope<'_>) -> bool {
        let selected = select(root, path);
        let Some(expected) = &self.equals else {
            return selected.is_empty() == self.absent;
        };
        let Some(expected) = expected.canonical(scope) else { return false };
        let found = selected.into_iter().any(|value| canonical(value) == expected);
        found != self.absent
    }
}

/// What no server takes for nothing.
fn is_plainly_there(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_plainly_there),
        Value::Object(members) => members.values().any(is_plainly_there),
        Value::String(text) => !says_no(text.trim()),
        Value::Null | Value::Bool(_) | Value::Number(_) => presence(value) == Presence::Something,
    }
}

/// A text by which one server or another says that there is none, or 0.
fn says_no(text: &str) -> bool {
    const NO: [&str; 12] =
        ["", "f", "false", "n", "nan", "nil", "no", "none", "null", "off", "undefined", "-"];
    NO.iter().any(|no| text.eq_ignore_ascii_case(no)) || text.parse::<f64>().is_ok_and(|number| number == 0.0)
}

/// Neither `true` nor `false`, nor a form's text for them: servers cast `1`, `"on"`, `"TRUE"`, `[true]` as each likes, and `null`
/// and what is empty to `false`.
fn is_cast(value: &Value, wanted: bool) -> bool {
    match value {
        Value::Bool(_) => false,
        Value::Null => !wanted,
        Value::String(text) => text != "true" && text != "false",
        Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Whether a value in an answer is something, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// `null`, `""`, `[]`, `{}`: what other APIs leave out.
    Nothing,
    /// `false` or `0`: none, or this one.
    Open,
    /// Anything else.
    Something,
}

/// Whether `value`, which stands in an answer, is something.
#[must_use]
pub fn presence(value: &Value) -> Presence {
    let or_nothing = |is_empty: bool| if is_empty { Presence::Nothing } else { Presence::Something };
    match value {
        Value::Null => Presence::Nothing,
        Value::Bool(said) => {
            if *said {
                Presence::Something
            } else {
                Presence::Open
            }
        }
        Value::Number(number) => {
            if number.as_f64() == Some(0.0) {
                Presence::Open
            } else {
                Presence::Something
            }
        }
        Value::String(text) => or_nothing(text.is_empty()),
        Value::Array(items) => or_nothing(items.is_empty()),
        Value::Object(members) => or_nothing(members.is_empty()),
    }
}

impl Expected {
    /// The canonical spelling of what is expected, or nothing if it cannot be rendered.
    fn canonical(&self, scope: &Scope<'_>) -> Option<String> {
        match self {
            Expected::Literal(value) => Some(canonical(value)),
            Expected::Template(template) => {
                let text = template.render(scope).ok()?;
                // A lone placeholder keeps its type, so that two spellings of one number are equal.
                let value = match template.only_piece() {
                    Some(Piece::Input(path)) => get(scope.input, path),
                    Some(Piece::Response(path)) => scope.response.and_then(|answer| get(answer, path)),
                    Some(Piece::Text(_) | Piece::Secret(_) | Piece::EffectId | Piece::EffectKey) | None => {
                        None
                    }
                };
                Some(value.map_or_else(|| canonical(&Value::String(text)), canonical))
            }
        }
    }
}
