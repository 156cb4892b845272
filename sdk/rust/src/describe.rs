//! The descriptor as JSON, made at compile time.

use crate::module::{FieldDesc, FunctionDesc, StateKind};
use crate::schema::Schema;
use crate::ttl::Ttl;

const CAPACITY: usize = 16 << 10;

/// JSON text built in constant evaluation.
pub struct Json {
    bytes: [u8; CAPACITY],
    /// length of the text
    pub len: usize,
}

impl Json {
    /// The text as an array of its length.
    pub const fn exact<const N: usize>(&self) -> [u8; N] {
        let mut out = [0; N];
        let mut i = 0;
        while i < N {
            out[i] = self.bytes[i];
            i += 1;
        }
        out
    }

    const fn text(mut self, s: &str) -> Json {
        let b = s.as_bytes();
        let mut i = 0;
        while i < b.len() {
            self.bytes[self.len] = b[i];
            self.len += 1;
            i += 1;
        }
        self
    }

    /// A JSON string of text that needs no escapes.
    const fn string(self, s: &str) -> Json {
        let b = s.as_bytes();
        let mut i = 0;
        while i < b.len() {
            assert!(
                b[i] >= b' ' && b[i] != b'"' && b[i] != b'\\',
                "names hold no quotes, backslashes or control characters"
            );
            i += 1;
        }
        self.text("\"").text(s).text("\"")
    }

    const fn comma(self, i: usize) -> Json {
        if i > 0 {
            return self.text(",");
        }
        self
    }

    const fn number(self, n: u64) -> Json {
        let mut json = if n >= 10 { self.number(n / 10) } else { self };
        json.bytes[json.len] = b'0' + (n % 10) as u8;
        json.len += 1;
        json
    }

    const fn strings(self, name: &str, list: &[&str]) -> Json {
        if list.is_empty() {
            return self;
        }
        let mut json = self.text(",\"").text(name).text("\":[");
        let mut i = 0;
        while i < list.len() {
            json = json.comma(i).string(list[i]);
            i += 1;
        }
        json.text("]")
    }

    const fn fields(self, name: &str, list: &[FieldDesc]) -> Json {
        if list.is_empty() {
            return self;
        }
        let mut json = self.text(",\"").text(name).text("\":[");
        let mut i = 0;
        while i < list.len() {
            assert!(is_type(list[i].1), "a column is int64, float64, bool, string, bytes or timestamp");
            json = json.comma(i).text("{\"name\":").string(list[i].0).text(",\"type\":").string(list[i].1).text("}");
            i += 1;
        }
        json.text("]")
    }

    const fn ttl(self, ttl: Option<Ttl>) -> Json {
        let ttl = match ttl {
            Some(t) => t,
            None => return self,
        };
        let mut json = self.text(",\"ttl\":{\"ms\":").number(ttl.ms);
        if ttl.processing {
            json = json.text(",\"domain\":\"processing\"");
        }
        if ttl.on_read {
            json = json.text(",\"refresh\":\"read\"");
        }
        json.text("}")
    }

    const fn state_schema(self, name: &str, s: &Schema) -> Json {
        if !s.known() {
            return self;
        }
        self.text(",\"").text(name).text("\":{").schema(s).text("}")
    }

    /// The fields of a schema's object.
    const fn schema(self, s: &Schema) -> Json {
        match s {
            Schema::Unknown => self,
            Schema::Type(t) => self.text("\"type\":").string(t),
            Schema::Bytes(n) => {
                let json = self.text("\"type\":\"bytes\"");
                if *n > 0 {
                    return json.text(",\"size\":").number(*n as u64);
                }
                json
            }
            Schema::Struct(fields) => {
                let mut json = self.text("\"type\":\"struct\",\"fields\":[");
                let mut i = 0;
                while i < fields.len() {
                    json =
                        json.comma(i).text("{\"name\":").string(fields[i].0).text(",").schema(&fields[i].1).text("}");
                    i += 1;
                }
                json.text("]")
            }
        }
    }

    const fn function(self, f: &FunctionDesc) -> Json {
        assert!(
            same(f.kind, "map")
                || same(f.kind, "flat_map")
                || same(f.kind, "filter")
                || same(f.kind, "process")
                || same(f.kind, "aggregate")
                || same(f.kind, "window")
                || same(f.kind, "watermark"),
            "a function is a map, flat_map, filter, process, aggregate, window or watermark"
        );
        let mut json = self.text("{\"name\":").string(f.name).text(",\"kind\":").string(f.kind);
        if f.keyed {
            json = json.text(",\"keyed\":true");
        }
        if f.retracts {
            json = json.text(",\"retracts\":true");
        }
        json = json.fields("input", f.input).fields("output", f.output).strings("outputs", f.outputs);
        if !f.states.is_empty() {
            json = json.text(",\"states\":[");
            let mut i = 0;
            while i < f.states.len() {
                let s = &f.states[i];
                let kind = match s.kind {
                    StateKind::Value => "value",
                    StateKind::List => "list",
                    StateKind::Map => "map",
                };
                json = json.comma(i).text("{\"name\":").string(s.name).text(",\"kind\":").string(kind);
                if s.max_bytes > 0 {
                    json = json.text(",\"max_bytes\":").number(s.max_bytes as u64);
                }
                json = json.ttl(s.ttl);
                json = json.state_schema("schema", &s.schema).state_schema("key_schema", &s.key_schema);
                json = json.text("}");
                i += 1;
            }
            json = json.text("]");
        }
        json.strings("timers", f.timers).text("}")
    }
}

/// What of an instance is state.
pub struct Instance {
    /// `snapshot: memory`
    pub memory: bool,
    /// `save:` is there
    pub save: bool,
    /// `load:` is there
    pub load: bool,
}

/// The descriptor of a module.
pub const fn describe(name: &str, instance: &Instance, functions: &[FunctionDesc]) -> Json {
    let json = Json { bytes: [0; CAPACITY], len: 0 };
    let mut json = json.text("{\"abi\":0,\"name\":").string(name);
    json = json.text(",\"sdk\":\"rust ").text(env!("CARGO_PKG_VERSION")).text("\"");
    if instance.memory {
        json = json.text(",\"snapshot\":\"memory\"");
    }
    if instance.save {
        json = json.text(",\"save\":true");
    }
    if instance.load {
        json = json.text(",\"load\":true");
    }
    json = json.text(",\"functions\":[");
    let mut i = 0;
    while i < functions.len() {
        json = json.comma(i).function(&functions[i]);
        i += 1;
    }
    json.text("]}")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn is_type(t: &str) -> bool {
    same(t, "int64")
        || same(t, "float64")
        || same(t, "bool")
        || same(t, "string")
        || same(t, "bytes")
        || same(t, "timestamp")
}
