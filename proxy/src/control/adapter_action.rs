//! Actions with an adapter, in the words in which they could be sent.

use oncegate_config::model::{Action, GithubFile, GithubWrite, ResendEmail, StripeRefund, StripeWrite};
use serde_json::{Value, json};

use super::template_action;

/// What the document of such an action says beside what every action has.
pub(crate) struct Shown {
    /// `adapter`
    pub(crate) adapter: Value,
    /// `impact`
    pub(crate) impact: Value,
}

pub(crate) fn stripe_refund(action: &Action, refund: &StripeRefund) -> Shown {
    let config = json!({
        "account": refund.account,
        "mode": if refund.live { "live" } else { "test" },
        "currency": refund.currency,
    });
    Shown {
        adapter: adapter("stripe.refund", action, config, &refund.credential_secret),
        impact: json!({
            "dimension": "money", "currency": refund.currency, "unit": refund.currency,
            "amount": "input.amount", "bound": "exact",
        }),
    }
}

pub(crate) fn stripe_write(action: &Action, write: &StripeWrite) -> Shown {
    let url = write.route.url.to_string();
    let path = url.find("/v1/").map(|at| url.split_at(at).1);
    let config = json!({ "mode": if write.live { "live" } else { "test" }, "path": path });
    let secret = write.route.credential_secret.as_deref().unwrap_or_default();
    Shown {
        adapter: adapter("stripe.write", action, config, secret),
        impact: write.route.impact.as_ref().map_or(Value::Null, template_action::impact),
    }
}

pub(crate) fn resend_email(action: &Action, email: &ResendEmail) -> Shown {
    let config = json!({ "fence": email.fence.word(), "readSecret": email.read_secret });
    Shown {
        adapter: adapter("resend.email_send", action, config, &email.credential_secret),
        impact: mutations("count(input.to, input.cc, input.bcc)"),
    }
}

pub(crate) fn github_file(action: &Action, file: &GithubFile) -> Shown {
    let repository = file.repository.as_ref().map(|only| format!("{}/{}", only.owner, only.name));
    let config = json!({ "repository": repository, "branch": file.branch });
    Shown {
        adapter: adapter("github.file_update", action, config, &file.credential_secret),
        impact: mutations("1"),
    }
}

pub(crate) fn github_write(action: &Action, write: &GithubWrite) -> Shown {
    let url = write.route.url.to_string();
    let path = url.find("/repos/").map(|at| url.split_at(at).1);
    let config = json!({ "method": write.route.method, "path": path, "markBody": write.mark_body });
    let secret = write.route.credential_secret.as_deref().unwrap_or_default();
    Shown {
        adapter: adapter("github.write", action, config, secret),
        impact: write.route.impact.as_ref().map_or_else(|| mutations("1"), template_action::impact),
    }
}

fn adapter(kind: &str, action: &Action, mut config: Value, credential_secret: &str) -> Value {
    if let Some(members) = config.as_object_mut() {
        members.insert("faultDrill".to_owned(), action.fault_drill.map(|drill| drill.word()).into());
    }
    json!({ "type": kind, "config": config, "credentialSecret": credential_secret })
}

fn mutations(amount: &str) -> Value {
    json!({
        "dimension": "resource_mutations", "currency": null, "unit": "resource_mutations",
        "amount": amount, "bound": "exact",
    })
}
