//! From the wire to an action's input: one reading, or a refusal.

#[cfg(test)]
mod authority;
#[cfg(test)]
mod body;
#[cfg(test)]
mod check;
#[cfg(test)]
mod form;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod json;
#[cfg(test)]
mod matching;
#[cfg(test)]
mod path;
#[cfg(test)]
mod router;
#[cfg(test)]
mod template;
#[cfg(test)]
mod url_template;
