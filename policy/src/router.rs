//! Which declared action a request means.
//!
//! The answer never depends on the order of declaration: candidates come most specific first, and what two
//! actions could both claim is remarked when the configuration is read.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::authority::Authority;
use crate::check::{Check, Expected};
use crate::json::{canonical, lookalike};
use crate::path::CanonicalPath;
use crate::url_template::{Captured, QueryFit, Scheme, UrlTemplate};

/// One declared action, as the router needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The action's name.
    pub action: String,
    /// The method, case-sensitive (RFC 9110 section 9.1).
    pub method: String,
    /// Where it goes.
    pub url: UrlTemplate,
    /// What the input must show besides.
    pub when: Vec<Check>,
    /// It is recorded and judged before it is sent.
    pub governed: bool,
    /// Its provider takes this write as a GET too.
    pub writes_by_get: bool,
}

/// Methods that are reads where no action claims them (RFC 9110 section 9.2.1, without TRACE).
const READS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Something about the routes that an operator should know. Names come in alphabetical order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum RouteRemark {
    /// One request could mean both, equally specifically, and no `when` tells them apart: `a` is tried first.
    #[error(
        "actions `{a}` and `{b}` can match the same request: `{a}` wins by name; tell them apart with `when`"
    )]
    Overlap {
        /// The action that wins.
        a: String,
        /// The other.
        b: String,
    },
    /// The action can never be meant.
    #[error("action `{action}` never matches: `{by}` matches every request it could match")]
    Shadowed {
        /// The action that never matches.
        action: String,
        /// The action that always wins.
        by: String,
    },
    /// The URL needs an effect or an answer, or mixes text and placeholders in a query value.
    #[error("action `{action}` can be invoked but never matches a proxied request: its URL builds only")]
    NeverMatches {
        /// The action.
        action: String,
    },
}

/// An action that a request's URL can mean; its `when` is judged once the input is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// The action's name.
    pub action: &'a str,
    /// Its URL.
    pub url: &'a UrlTemplate,
    /// What the URL says about the input.
    pub captured: Captured,
    /// What the input must show besides.
    pub when: &'a [Check],
}

impl Candidate<'_> {
    /// Whether the input shows everything that `when` asks for.
    #[must_use]
    pub fn applies_to(&self, input: &Value) -> bool {
        self.when.iter().all(|check| check.holds_for_input(input))
    }

    /// Whether nothing but the order of their names puts one before the other.
    #[must_use]
    pub fn ranks_with(&self, other: &Self) -> bool {
        self.url.specificity() == other.url.specificity() && self.when.len() == other.when.len()
    }

    /// A member of the input that could be taken for one that `when` asks about ([`lookalike`]).
    #[must_use]
    pub fn lookalike(&self, input: &Value) -> Option<String> {
        self.when.iter().find_map(|check| lookalike(input, check.input_path()))
    }

    /// The path of a condition on which servers differ for this input, if everything else that `when` asks for holds.
    #[must_use]
    pub fn unclear(&self, input: &Value) -> Option<&str> {
        let open = |check: &&Check| check.is_unclear_in(input);
        let left = self.when.iter().all(|check| open(&check) || check.holds_for_input(input));
        self.when.iter().find(open).filter(|_| left).map(Check::input_path)
    }

    /// The same where only `part` of the input is known: `None` when it depends on the rest.
    #[must_use]
    pub fn applies_to_part(&self, part: &Value) -> Option<bool> {
        let settled = self.when.iter().map(|check| check.settled_by(part));
        let mut applies = Some(true);
        for one in settled {
            match one {
                Some(true) => {}
                Some(false) => return Some(false),
                None => applies = None,
            }
        }
        applies
    }
}

/// Routes of one method and one number of segments on one server, in the order they are tried.
type Bucket = Vec<Route>;

/// The declared actions, compiled by server, method and number of path segments; none for those that take the rest of a
/// path.
#[derive(Clone, Debug, Default)]
pub struct Router {
    servers: BTreeMap<Authority, BTreeMap<String, BTreeMap<Option<usize>, Bucket>>>,
    /// Where governed actions are; those that never match among them.
    governed: BTreeMap<Authority, Governed>,
}

/// The places on one server that are governed actions', in whatever spelling.
#[derive(Clone, Debug, Default)]
struct Governed {
    /// By method.
    places: BTreeMap<String, Vec<UrlTemplate>>,
    /// Where nothing is a mere read.
    reads: Vec<UrlTemplate>,
}

impl Router {
    /// Compiles the routes and says what is odd about them.
    #[must_use]
    pub fn build(routes: Vec<Route>) -> (Self, Vec<RouteRemark>) {
        let mut router = Self::default();
        let mut remarks = Vec::new();
        for route in routes {
            if route.governed {
                let governed = router.governed.entry(route.url.authority().clone()).or_default();
                if route.writes_by_get || READS.contains(&route.method.as_str()) {
                    governed.reads.push(route.url.clone());
                }
                governed.places.entry(route.method.clone()).or_default().push(route.url.clone());
            }
            if !route.url.is_matchable() {
                remarks.push(RouteRemark::NeverMatches { action: route.action });
                continue;
            }
            let server = router.servers.entry(route.url.authority().clone()).or_default();
            let method = server.entry(route.method.clone()).or_default();
            let count = (!route.url.takes_rest()).then(|| route.url.segment_count());
            method.entry(count).or_default().push(route);
        }
        let buckets =
            router.servers.values_mut().flat_map(BTreeMap::values_mut).flat_map(BTreeMap::values_mut);
        for bucket in buckets {
            // More conditions first: an action without `when` is what remains for everything else.
            bucket.sort_by_cached_key(|route| {
                (Reverse(route.url.specificity()), Reverse(route.when.len()), route.action.clone())
            });
            remark_on(bucket, &mut remarks);
        }
        remarks.sort();
        (router, remarks)
    }

    /// The actions that the URL of a request can mean, most specific first, ties broken by name. The first
    /// whose [`Candidate::applies_to`] holds is the one that is meant.
    #[must_use]
    pub fn candidates(
        &self,
        method: &str,
        scheme: Scheme,
        authority: &Authority,
        path: &CanonicalPath,
        query: &[(String, String)],
    ) -> Vec<Candidate<'_>> {
        let counts = self.servers.get(authority).and_then(|methods| methods.get(method));
        let of = |count: Option<usize>| counts.and_then(|counts| counts.get(&count)).into_iter().flatten();
        // What names each segment is more specific than what takes the rest.
        of(Some(path.segments().len()))
            .chain(of(None))
            .filter_map(|route| {
                let captured = route.url.matches(scheme, authority, path, query)?;
                Some(Candidate { action: &route.action, url: &route.url, captured, when: &route.when })
            })
            .collect()
    }

    /// Whether some action writes at this URL, by whatever method: then the server's reading of an encoded slash there
    /// is known.
    #[must_use]
    pub fn knows_path(&self, scheme: Scheme, authority: &Authority, path: &CanonicalPath) -> bool {
        let methods = self.servers.get(authority).into_iter().flat_map(BTreeMap::values);
        let rest = methods.filter_map(|counts| counts.get(&None)).flatten();
        rest.into_iter().any(|route| route.url.matches(scheme, authority, path, &[]).is_some())
    }

    /// Whether a governed action can be meant by a read at this path, by the path alone ([`UrlTemplate::claims`]). A read
    /// there that is not exactly an action's could be its write in another spelling: with a parameter twice, a trailing
    /// slash, as HEAD, which many servers serve as GET, or as the GET that its provider takes for the POST.
    #[must_use]
    pub fn governs_reads(&self, scheme: Scheme, authority: &Authority, path: &CanonicalPath) -> bool {
        let here = self.governed.get(authority);
        here.is_some_and(|governed| governed.reads.iter().any(|url| url.claims(scheme, path)))
    }

    /// The parameters of the query by whose value the governed actions of that method at this path are told from others.
    #[must_use]
    pub fn told_by(
        &self,
        method: &str,
        scheme: Scheme,
        authority: &Authority,
        path: &CanonicalPath,
    ) -> Vec<&str> {
        let places = self.governed.get(authority).and_then(|governed| governed.places.get(method));
        let here = places.into_iter().flatten().filter(|url| url.claims(scheme, path));
        here.flat_map(UrlTemplate::pinned_parameters).collect()
    }

    /// Whether this is the URL of a governed action of that method in another spelling, and no action that is as narrow is at
    /// this very path: to many servers the case of a path, a slash or a format at its end, spaces, and a parameter given twice
    /// make no difference. `candidates` are the actions at the URL to the letter; where there are none, a parameter that is
    /// missing counts as well, since the body may hold it.
    #[must_use]
    pub fn respells(
        &self,
        method: &str,
        scheme: Scheme,
        authority: &Authority,
        (path, query): (&CanonicalPath, &[(String, String)]),
        candidates: &[Candidate<'_>],
    ) -> bool {
        let places = self.governed.get(authority).and_then(|governed| governed.places.get(method));
        let of_governed = || places.into_iter().flatten().filter(|url| url.claims(scheme, path));
        let governed = of_governed().filter(|url| url.names(scheme, path));
        let declared = candidates.iter().map(|one| one.url);
        let exactly = governed.chain(declared).map(UrlTemplate::specificity).max();
        let respelled = |url: &UrlTemplate| match (url.names(scheme, path), url.query_fit(query)) {
            (false, _) => Some(url.specificity()) > exactly,
            (true, QueryFit::Respelled) => true,
            (true, QueryFit::Missing) => candidates.is_empty(),
            (true, QueryFit::Exact | QueryFit::Other) => false,
        };
        of_governed().any(respelled)
    }
}

/// Remarks on every pair of a sorted bucket.
fn remark_on(bucket: &[Route], remarks: &mut Vec<RouteRemark>) {
    for (at, first) in bucket.iter().enumerate() {
        for second in bucket.iter().skip(at + 1) {
            remarks.extend(remark_on_pair(first, second));
        }
    }
}

/// `first` is tried before `second`.
fn remark_on_pair(first: &Route, second: &Route) -> Option<RouteRemark> {
    if first.url.specificity() != second.url.specificity() || !first.url.overlaps(&second.url) {
        return None;
    }
    let implied =
        |all: &[Check], some: &[Check]| some.iter().all(|x| all.iter().any(|y| x.asks_the_same_as(y)));
    if first.url.matches_the_same(&second.url) && implied(&second.when, &first.when) {
        return Some(RouteRemark::Shadowed { action: second.action.clone(), by: first.action.clone() });
    }
    // An action whose conditions include the other's is a special case of it, tried first on purpose.
    let special_case = first.when.len() > second.when.len() && implied(&first.when, &second.when);
    if special_case || are_apart(&first.when, &second.when) {
        return None;
    }
    Some(RouteRemark::Overlap { a: first.action.clone(), b: second.action.clone() })
}

/// Whether no input satisfies both: some one member must equal two values, or be there and not be there.
fn are_apart(a: &[Check], b: &[Check]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.input_path() == y.input_path() && contradict(x, y)))
}

fn contradict(x: &Check, y: &Check) -> bool {
    // Under `*` one item may satisfy the one and another item the other.
    let one_value = !x.input_path().split('.').any(|part| part == "*");
    match (x.absent, y.absent) {
        (false, false) => match (&x.equals, &y.equals) {
            (Some(Expected::Literal(x)), Some(Expected::Literal(y))) => {
                one_value && canonical(x) != canonical(y)
            }
            (Some(Expected::Literal(_) | Expected::Template(_)) | None, _) => false,
        },
        (true, false) => denies(x, y),
        (false, true) => denies(y, x),
        (true, true) => false,
    }
}

/// Whether `absent` rules out what `present` asks for.
fn denies(absent: &Check, present: &Check) -> bool {
    absent.equals.is_none() || absent.expects_the_same_as(present)
}
