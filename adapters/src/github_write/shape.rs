//! Which endpoint a URL is, and what is known of it.

/// Endpoints below `/repos/{owner}/{repo}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `POST …/issues` (<https://docs.github.com/en/rest/issues/issues#create-an-issue>), with the repository's path.
    Issue(String),
    /// `POST …/issues/7/comments` (<https://docs.github.com/en/rest/issues/comments#create-an-issue-comment>), which
    /// pull requests have too, with the repository's path and the number.
    Comment(String, String),
    /// `POST …/pulls` (<https://docs.github.com/en/rest/pulls/pulls#create-a-pull-request>), with the repository's path.
    Pull(String),
    /// `PUT …/pulls/7/merge` (<https://docs.github.com/en/rest/pulls/pulls#merge-a-pull-request>).
    Merge,
    /// An endpoint of which nothing is known here.
    Other,
}

/// What stands behind the origin.
pub(super) fn path_of(url: &str) -> Option<&str> {
    let behind = url.split_once("://")?.1;
    let path = behind.find('/').map(|at| behind.split_at(at).1)?;
    path.split('?').next()
}

impl Shape {
    /// By the template: which endpoint it is does not depend on the names in it.
    pub(super) fn of_url(url: &str) -> Self {
        path_of(url).map_or(Self::Other, Self::of_path)
    }

    pub(super) fn of_path(path: &str) -> Self {
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let repository = |owner: &str, name: &str| format!("/repos/{owner}/{name}");
        match words.as_slice() {
            ["repos", owner, name, "issues"] => Self::Issue(repository(owner, name)),
            ["repos", owner, name, "issues", number, "comments"] => {
                Self::Comment(repository(owner, name), (*number).to_owned())
            }
            ["repos", owner, name, "pulls"] => Self::Pull(repository(owner, name)),
            ["repos", _, _, "pulls", _, "merge"] => Self::Merge,
            _ => Self::Other,
        }
    }

    /// Whether it takes a `body` that people read.
    pub(super) fn has_text(&self) -> bool {
        match self {
            Self::Issue(_) | Self::Comment(..) | Self::Pull(_) => true,
            Self::Merge | Self::Other => false,
        }
    }

    /// Statuses that say that nothing was done, although the usual table does not read them so.
    pub(super) fn refusals(&self) -> &'static [u16] {
        match self {
            // "Conflict if sha was provided and pull request head did not match".
            Self::Merge => &[409],
            Self::Issue(_) | Self::Comment(..) | Self::Pull(_) | Self::Other => &[],
        }
    }
}
