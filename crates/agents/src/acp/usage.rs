//! What an agent says that it used. What it does not say is unknown, never zero.

use serde_json::Value as Json;

use super::settings::TokenCount;

/// One unit in millionths: agents tell money in units of a currency.
const MICRO: f64 = 1e6;

/// What one session has used so far, as the agent tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// Tokens that were charged, where an agent tells a running total.
    tokens: u64,
    /// The millionths that the agent has told last, and those that were charged.
    cost: u64,
    charged: u64,
    /// Whether something was told since the last time.
    is_told: bool,
}

impl Used {
    /// Takes in an update of a session.
    pub(super) fn updated(&mut self, update: &Json) {
        let cost =
            update.get("cost").filter(|cost| cost.get("currency").and_then(Json::as_str) == Some("USD"));
        let Some(cost) = cost else { return };
        let amount = cost.get("amount").and_then(Json::as_f64);
        // A total that cannot be read makes what was told before it no total any more.
        self.is_told = amount.is_some_and(|cost| cost.is_finite() && cost >= 0.0);
        if let Some(cost) = amount.filter(|_| self.is_told) {
            // A cast of a float saturates.
            let millionths = (cost * MICRO).round() as u64;
            self.cost = self.cost.max(millionths);
        }
    }

    /// The tokens of a turn that has ended so.
    pub(super) fn tokens(&mut self, result: &Json, meter: TokenCount) -> Option<u64> {
        let told = tokens(result)?;
        match meter {
            TokenCount::Turn | TokenCount::Part => Some(told),
            TokenCount::Session => {
                let before = self.tokens;
                self.tokens = before.max(told);
                Some(told.saturating_sub(before))
            }
        }
    }

    /// What was added to the cost since the last time; nothing if nothing was told.
    pub(super) fn money(&mut self) -> Option<u64> {
        let before = std::mem::replace(&mut self.charged, self.cost);
        std::mem::take(&mut self.is_told).then(|| self.cost - before)
    }
}

/// The tokens in the result of a turn. Of several counts the largest is taken: some leave side calls out. One
/// that is there and cannot be read makes the whole report unknown.
fn tokens(result: &Json) -> Option<u64> {
    let quota = result.pointer("/_meta/quota");
    let there = |count: Option<&Json>| count.filter(|count| !count.is_null()).map(sum);
    let models = quota.and_then(|quota| quota.get("model_usage")).and_then(Json::as_array);
    let models = models.map(|models| {
        let mut parts = models.iter().map(|model| sum(model.get("token_count")?));
        parts.try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)))
    });
    let all = [there(result.get("usage")), there(quota.and_then(|quota| quota.get("token_count"))), models];
    let told: Option<Vec<u64>> = all.into_iter().flatten().collect();
    told?.into_iter().max().filter(|tokens| *tokens > 0)
}

/// The total of one count, or the sum of what goes in and out. Without a total both of them must be there, and
/// none of the three may be what cannot be read.
fn sum(count: &Json) -> Option<u64> {
    let found = |names: &[&str]| names.iter().find_map(|name| count.get(*name)).filter(|one| !one.is_null());
    let total = found(&["totalTokens", "total_tokens"]);
    let parts = [found(&["inputTokens", "input_tokens"]), found(&["outputTokens", "output_tokens"])];
    if total.iter().chain(parts.iter().flatten()).any(|one| one.as_u64().is_none()) {
        return None;
    }
    let number = |one: Option<&Json>| one.and_then(Json::as_u64);
    let parts = number(parts[0]).zip(number(parts[1])).map(|(sent, back)| sent.saturating_add(back));
    number(total).max(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_read_where_agents_put_them() {
        let quota = json!({ "token_count": { "input_tokens": 7, "output_tokens": 2 } });
        let side = json!({ "token_count": { "totalTokens": 40 },
            "model_usage": [{ "token_count": { "totalTokens": 45 } }, { "token_count": { "totalTokens": 5 } }] });
        let table = [
            (json!({ "usage": { "totalTokens": 12, "inputTokens": 10, "outputTokens": 2 } }), Some(12)),
            (json!({ "usage": { "inputTokens": 10, "outputTokens": 2 } }), Some(12)),
            (json!({ "usage": { "totalTokens": 40 }, "_meta": { "quota": side } }), Some(50)),
            (json!({ "_meta": { "quota": quota } }), Some(9)),
            (json!({ "usage": { "totalTokens": "12" } }), None),
            (json!({ "usage": { "totalTokens": -1 } }), None),
            (json!({ "usage": { "inputTokens": -5, "outputTokens": 2 } }), None),
            (json!({ "usage": { "inputTokens": 1e308, "outputTokens": 0 } }), None),
            (json!({ "usage": { "outputTokens": 5 } }), None),
            (json!({ "usage": { "totalTokens": 5, "inputTokens": "many" } }), None),
            (
                json!({ "usage": { "totalTokens": 5 }, "_meta": { "quota": { "token_count": { "totalTokens": -1 } } } }),
                None,
            ),
            (json!({ "usage": { "totalTokens": 0, "inputTokens": 0 } }), None),
            (json!({ "usage": null }), None),
            (
                json!({ "usage": { "totalTokens": u64::MAX, "inputTokens": u64::MAX, "outputTokens": 1 } }),
                Some(u64::MAX),
            ),
            (json!({}), None),
            (json!(null), None),
        ];
        for (result, wanted) in table {
            assert_eq!(Used::default().tokens(&result, TokenCount::Turn), wanted, "{result}");
        }
    }

    #[test]
    fn a_running_total_is_charged_once() {
        let mut used = Used::default();
        let told = |total: u64| json!({ "usage": { "totalTokens": total } });
        assert_eq!(used.tokens(&told(10), TokenCount::Session), Some(10));
        assert_eq!(used.tokens(&told(25), TokenCount::Session), Some(15));
        assert_eq!(used.tokens(&told(5), TokenCount::Session), Some(0), "a total does not shrink");
        assert_eq!(used.tokens(&told(30), TokenCount::Session), Some(5));
    }

    #[test]
    fn money_is_what_was_added() {
        let mut used = Used::default();
        assert_eq!(used.money(), None);
        used.updated(&json!({ "used": 10, "size": 100 }));
        assert_eq!(used.money(), None);
        used.updated(&json!({ "cost": { "amount": 0.25, "currency": "USD" } }));
        assert_eq!((used.money(), used.money()), (Some(250_000), None));
        for wrong in [json!(-1.0), json!("1"), json!(null), json!(0.1)] {
            used.updated(&json!({ "cost": { "amount": wrong, "currency": "USD" } }));
        }
        used.updated(&json!({ "cost": { "amount": 9.0, "currency": "EUR" } }));
        assert_eq!(used.money(), Some(0));
        used.updated(&json!({ "cost": { "amount": 1e300, "currency": "USD" } }));
        assert_eq!(used.money(), Some(u64::MAX - 250_000));
    }
}
