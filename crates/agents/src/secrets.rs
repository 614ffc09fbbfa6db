//! Secrets taken out of the core's values. What a secret is, and how it is taken out of a text, stands in
//! `ftl_process::secrets`.

use ftl_core::value::{Fields, Name, Value};
pub use ftl_process::secrets::*;

/// Takes secrets out of values.
pub trait RedactValues {
    /// The value without secrets, in names and texts.
    fn redact_value(&self, value: &Value) -> Value;
    /// The same for fields.
    fn redact_fields(&self, fields: &Fields) -> Fields;
}

impl RedactValues for Secrets {
    fn redact_value(&self, value: &Value) -> Value {
        match value {
            // Most answers hold no secret, and some are as large as a plan: they stay as they are in memory.
            clean if is_clean(self, clean) => clean.clone(),
            Value::Text(text) => Value::text(self.redact(text)),
            Value::List(items) => Value::list(items.iter().map(|item| self.redact_value(item))),
            Value::Record(fields) => Value::Record(self.redact_fields(fields).into()),
            Value::None | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn redact_fields(&self, fields: &Fields) -> Fields {
        let clean =
            |(name, value): (&Name, &Value)| (Name::from(self.redact(name)), self.redact_value(value));
        fields.iter().map(clean).collect()
    }
}

/// Whether nothing in a value is hidden.
fn is_clean(secrets: &Secrets, value: &Value) -> bool {
    match value {
        Value::None | Value::Bool(_) | Value::Number(_) => true,
        Value::Text(text) => secrets.is_clean(text),
        Value::List(items) => items.iter().all(|item| is_clean(secrets, item)),
        Value::Record(fields) => {
            fields.iter().all(|(name, value)| secrets.is_clean(name) && is_clean(secrets, value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_no_secrets_in_it() {
        let mut secrets = Secrets::new();
        secrets.hide("test-key-1");
        let value = Value::record([
            ("a", Value::text("is test-key-1")),
            ("b", Value::list([Value::text("test-key-1"), Value::whole(7)])),
        ]);
        let clean = secrets.redact_value(&value).to_string();
        assert!(
            !clean.contains("test-key-1") && clean.contains("is [hidden]") && clean.contains('7'),
            "{clean}"
        );
    }
}
