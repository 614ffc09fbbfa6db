//! Answers in the words of Gemini's `generateContent`, as a stream or whole.

use serde_json::{Value as Json, json};

use super::speak::{Out, pieces};

impl Out<'_> {
    /// The whole answer.
    pub(super) fn gemini(&self) -> Json {
        let mut parts = Vec::new();
        if !self.answer.text.is_empty() {
            parts.push(json!({ "text": self.answer.text }));
        }
        parts.extend(self.gemini_calls());
        self.gemini_chunk(&parts, Some(self.gemini_reason()))
    }

    /// The same in pieces.
    pub(super) fn gemini_events(&self) -> Vec<String> {
        let thoughts = self.think().map(|text| json!({ "text": text, "thought": true }));
        let text = &self.answer.text;
        let texts = if text.is_empty() { Vec::new() } else { pieces(text) };
        let parts = thoughts.into_iter().chain(texts.iter().map(|text| json!({ "text": text })));
        let mut chunks: Vec<Json> = parts.map(|part| self.gemini_chunk(&[part], None)).collect();
        let mut last = self.gemini_calls();
        if last.is_empty() {
            last.push(json!({ "text": "" }));
        }
        chunks.push(self.gemini_chunk(&last, Some(self.gemini_reason())));
        chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
    }

    fn gemini_calls(&self) -> Vec<Json> {
        let call = |(call, id, args): (&super::plan::Made, &String, &String)| {
            let args: Json = serde_json::from_str(args).unwrap_or_else(|_| json!({}));
            json!({ "functionCall": { "id": id, "name": call.name, "args": args } })
        };
        self.calls().map(call).collect()
    }

    fn gemini_reason(&self) -> &'static str {
        match self.stop() {
            Some("max_tokens" | "length") => "MAX_TOKENS",
            Some("refusal") => "SAFETY",
            Some(_) | None => "STOP",
        }
    }

    fn gemini_chunk(&self, parts: &[Json], reason: Option<&str>) -> Json {
        let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
        if let Some(reason) = reason {
            candidate["finishReason"] = json!(reason);
        }
        let mut chunk = json!({ "candidates": [candidate], "modelVersion": self.seen.model,
            "responseId": format!("r{}", self.number) });
        if self.says_usage() {
            let (sent, answered, cached) = self.used;
            chunk["usageMetadata"] = json!({ "promptTokenCount": sent, "candidatesTokenCount": answered,
                "totalTokenCount": sent + answered, "cachedContentTokenCount": cached });
        }
        chunk
    }
}
