//! AWS Signature Version 4: a request is signed last, over what is sent, with keys that the agent does not have.
//!
//! Agents sign with keys of their own making, because their libraries do not send without. What they put there goes
//! off before. The algorithm itself is Amazon's (`aws-sigv4`); here is what it is told.
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use http::{HeaderMap, Request, header};
use oncegate_config::model::{Action, KeyPlace};
use oncegate_policy::authority::Authority;
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_policy::template::{Scope as TemplateScope, Template};
use oncegate_policy::url_template::{Scheme, percent_encode};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::inject::without_parameters;
use crate::receive::host_value;

/// Services that take the path as it is, once encoded. All others encode it once more before they check.
const OF_S3: [&str; 3] = ["s3", "s3-outposts", "s3-object-lambda"];
/// OpenSearch Serverless wants the digest of an empty body, too, as S3 does.
const ALWAYS_WITH_DIGEST: &str = "aoss";
/// Says of what kind the body's digest is, or is the digest.
const DIGEST: &str = "x-amz-content-sha256";
/// What an agent's own signature consists of.
const THEIRS: [&str; 4] = ["authorization", "x-amz-date", "x-amz-security-token", DIGEST];
/// The same in a URL that is signed ("presigned").
const THEIRS_IN_QUERY: [&str; 7] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];
/// Fields that a hop between us and the service may change or take off: a signature over them would not hold.
const NOT_SIGNED: [&str; 4] = ["accept-encoding", "expect", "te", "via"];
/// A body in chunks with a checksum behind it and no signature: it can be signed for anew as it is.
const UNSIGNED_CHUNKS: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// Amazon's own fields, by their beginnings, that an agent may use without anybody having declared them: what describes
/// an object, how it is kept, and its checksums. Everything else there can choose another operation or another source, or
/// open the object to others (`x-amz-target`, `x-amz-copy-source`, `x-amz-acl`).
const DESCRIBING: [&str; 5] = [
    "x-amz-meta-",
    "x-amz-checksum-",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-server-side-encryption",
    "x-amz-storage-class",
];
/// Says what library it is.
const LIBRARY: &str = "x-amz-user-agent";

/// Whether a parameter of a presigned URL is part of its signature.
#[must_use]
pub fn is_theirs_in_query(name: &str) -> bool {
    THEIRS_IN_QUERY.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a field says to a service what is asked of it. One that does makes another request when it says something else.
#[must_use]
pub fn is_asked(name: &str) -> bool {
    name.starts_with("x-amz-") && name != LIBRARY && !THEIRS.contains(&name)
}

/// Named by newer libraries: which operation they mean, and S3 reads it not.
const LIBRARYS_OPERATION: &str = "x-id";

/// What a governed request says in Amazon's own fields, and in its query, is what its action declares: it would be signed for,
/// and it is not judged. In S3 a parameter is another operation (`?acl`, `?retention`), or a field in its other place.
///
/// # Errors
/// `invalid_request` for a field that the action does not declare with this value, for a parameter that its URL does not
/// name, and for a body in chunks.
pub fn declared(
    headers: &HeaderMap,
    query: &[(String, String)],
    action: &Action,
    input: &Value,
) -> Result<(), Refusal> {
    let refuse = |sentence: String| Err(Refusal::new(Code::InvalidRequest, sentence));
    if headers.get(DIGEST).is_some_and(|kind| kind.as_bytes().starts_with(b"STREAMING-")) {
        return refuse(
            "The body comes in chunks of AWS's own (x-amz-content-sha256), which cannot be judged; send it as it is. \
             Nothing was sent."
                .to_owned(),
        );
    }
    let scope = TemplateScope::of_input(input);
    let route = action.kind.declared();
    let named = |name: &str| {
        name == LIBRARYS_OPERATION
            || is_theirs_in_query(name)
            || route.is_some_and(|declared| declared.url.parameters().any(|own| own == name))
    };
    if query.iter().any(|(name, _)| !named(name)) {
        return refuse(
            "A parameter can make it another operation, and the action's URL names not all of them. Nothing was sent."
                .to_owned(),
        );
    }
    let known = route.map(|declared| declared.headers.as_slice()).unwrap_or_default();
    let key = route.and_then(|declared| declared.idempotency.as_ref()).map(|key| &key.place);
    for (name, value) in headers {
        let name = name.as_str();
        let is_key = matches!(key, Some(KeyPlace::Header(ours)) if ours == name);
        if is_key || !is_asked(name) || DESCRIBING.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let same = |template: &Template| {
            template.render(&scope).is_ok_and(|wanted| wanted.as_bytes() == value.as_bytes())
        };
        if !known.iter().any(|(declared, template)| declared == name && same(template)) {
            return refuse(format!(
                "The header {name} changes what the request does, and the action does not declare it with this value. \
                 Nothing was sent."
            ));
        }
    }
    Ok(())
}

/// The keys, and what they sign for. They leave in signatures only, and a session's token in its own field.
pub struct Signer {
    keys: Credentials,
    region: String,
    service: String,
}

/// The body that is signed for.
#[derive(Clone, Copy)]
pub enum Payload<'a> {
    /// These bytes.
    Whole(&'a [u8]),
    /// Whatever streams by: for S3 over TLS, see [`Signer::may_stream`].
    Streaming,
}

impl Signer {
    /// Keys, as they were fetched, for this region and service.
    #[must_use]
    pub fn new(keys: (&str, &str), session: Option<&str>, region: &str, service: &str) -> Self {
        let keys = Credentials::new(keys.0, keys.1, session.map(str::to_owned), None, "oncegate");
        Self { keys, region: region.to_owned(), service: service.to_owned() }
    }

    fn is_s3(&self) -> bool {
        OF_S3.contains(&self.service.as_str())
    }

    /// Whether a body need not be known to be signed for: S3 takes `UNSIGNED-PAYLOAD`, which is safe inside TLS only.
    /// For anything else the body has to be read whole first.
    #[must_use]
    pub fn may_stream(&self, scheme: Scheme, headers: &HeaderMap) -> bool {
        scheme == Scheme::Https
            && (self.is_s3() || headers.get(DIGEST).is_some_and(|it| it == UNSIGNED_CHUNKS))
    }

    /// Signs a request that is complete but for its signature, in place of whatever signature it came with. Gives the
    /// signature, for the scrubber.
    ///
    /// # Errors
    /// `invalid_request` for a body that carries signatures of its own, or a field that cannot be signed.
    pub fn sign(
        &self,
        head: &mut Request<()>,
        (authority, scheme): (&Authority, Scheme),
        payload: Payload<'_>,
        now: SystemTime,
    ) -> Result<String, Refusal> {
        let body = signable(head.headers(), payload)?;
        for name in THEIRS {
            head.headers_mut().remove(name);
        }
        *head.uri_mut() = without_parameters(head.uri(), is_theirs_in_query)?;
        let fields = fields(head.headers())?;
        let host = host_value(authority, scheme).unwrap_or(header::HeaderValue::from_static(""));
        let host = host.to_str().unwrap_or_default();
        let path = if self.is_s3() { once_encoded(head.uri().path()) } else { head.uri().path().to_owned() };
        let query = head.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{scheme}://{host}{path}{query}");
        let method = head.method().clone();
        let settings = self.settings(&body);
        let signable = SignableRequest::new(method.as_str(), url, fields.iter().map(pair), body)
            .map_err(|error| unsignable(&error))?;
        let identity = self.keys.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(now)
            .settings(settings)
            .build()
            .map_err(|error| unsignable(&error))?
            .into();
        let (instructions, signature) =
            sign(signable, &params).map_err(|error| unsignable(&error))?.into_parts();
        instructions.apply_to_request_http1x(head);
        Ok(signature)
    }

    fn settings(&self, body: &SignableBody<'_>) -> SigningSettings {
        let mut settings = SigningSettings::default();
        if self.is_s3() {
            settings.percent_encoding_mode = PercentEncodingMode::Single;
            settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        }
        let empty = *body == SignableBody::empty();
        if !empty || self.is_s3() || self.service == ALWAYS_WITH_DIGEST {
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        settings
    }
}

fn pair(field: &(String, String)) -> (&str, &str) {
    (&field.0, &field.1)
}

/// What is said of the body in the signature.
fn signable<'a>(headers: &HeaderMap, payload: Payload<'a>) -> Result<SignableBody<'a>, Refusal> {
    let kind = headers.get(DIGEST).map(|value| value.as_bytes()).unwrap_or_default();
    if kind == UNSIGNED_CHUNKS.as_bytes() {
        return Ok(SignableBody::StreamingUnsignedPayloadTrailer);
    }
    if kind.starts_with(b"STREAMING-") {
        // Each chunk is signed with the agent's own key: stored as it came, it would be another object.
        return Err(Refusal::new(
            Code::InvalidRequest,
            "The body is signed in chunks (aws-chunked), which cannot be signed anew; send it whole. Nothing was sent.",
        ));
    }
    Ok(match payload {
        Payload::Whole(bytes) => SignableBody::Bytes(bytes),
        Payload::Streaming => SignableBody::UnsignedPayload,
    })
}

/// The fields that are signed: all that will arrive as they leave. Those that are no text are left out, but for
/// Amazon's own, which have to be signed.
fn fields(headers: &HeaderMap) -> Result<Vec<(String, String)>, Refusal> {
    let mut fields = Vec::new();
    for (name, value) in headers.iter().filter(|(name, _)| !NOT_SIGNED.contains(&name.as_str())) {
        match value.to_str() {
            Ok(text) => fields.push((name.as_str().to_owned(), text.to_owned())),
            Err(_) if name.as_str().starts_with("x-amz-") => {
                let sentence = format!("The header {name} is not printable ASCII. Nothing was sent.");
                return Err(Refusal::new(Code::InvalidRequest, sentence));
            }
            Err(_) => {}
        }
    }
    Ok(fields)
}

/// As S3 spells the path when it checks: every byte but the unreserved ones encoded, once.
fn once_encoded(path: &str) -> String {
    let segment = |segment: &str| match percent_decode_str(segment).decode_utf8() {
        Ok(text) => percent_encode(&text),
        Err(_) => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn unsignable(error: &dyn std::error::Error) -> Refusal {
    tracing::warn!(error = crate::upstream::chain(error), "a request could not be signed");
    Refusal::new(Code::InvalidRequest, "The request cannot be signed. Nothing was sent.")
}

#[cfg(test)]
mod tests;
