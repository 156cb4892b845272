//! The byte vectors of the repository, both ways: what pins the encodings for every language.

use millrace::prelude::*;
use millrace::testing::{call, decode_frame, encode_frame, encode_row, Cell, Input};
use millrace::{FieldType, Row};
use std::collections::BTreeMap;

struct Vector {
    name: String,
    bad: bool,
    fields: Vec<(String, String)>,
    bytes: BTreeMap<String, Vec<u8>>,
}

fn read(file: &str) -> Vec<Vector> {
    let path = format!("{}/../../abi/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut list: Vec<Vector> = Vec::new();
    let mut last = String::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (name, text) = line.split_once(' ').unwrap_or((line, ""));
        if name == "name" || name == "bad" {
            list.push(Vector { name: text.into(), bad: name == "bad", fields: Vec::new(), bytes: BTreeMap::new() });
            continue;
        }
        let v = list.last_mut().expect("a name comes first");
        let is_bytes = ["hex", "block", "out", "after"].contains(&name);
        if is_bytes {
            last = name.into();
        }
        if is_bytes || name.is_empty() {
            let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
            let hex = |c: char| c.to_digit(16).expect("hex") as u8;
            let raw = digits.chunks(2).map(|c| hex(c[0]) << 4 | hex(c[1]));
            v.bytes.entry(last.clone()).or_default().extend(raw);
            continue;
        }
        v.fields.push((name.into(), text.into()));
    }
    assert!(!list.is_empty());
    list
}

/// A Go-quoted string, or null.
fn unquote(s: &str) -> Option<Vec<u8>> {
    if s == "null" {
        return None;
    }
    let mut out = Vec::new();
    let mut rest = s.strip_prefix('"').and_then(|s| s.strip_suffix('"')).expect("quotes").chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.extend(c.to_string().bytes());
            continue;
        }
        let kind = rest.next();
        let mut code = |n| u32::from_str_radix(&rest.by_ref().take(n).collect::<String>(), 16).expect("hex");
        match kind {
            Some('x') => out.push(code(2) as u8),
            Some('u') => out.extend(char::from_u32(code(4)).expect("a character").to_string().bytes()),
            other => panic!("escape {other:?} in {s}"),
        }
    }
    Some(out)
}

#[test]
fn frames() {
    for v in read("frames.txt").iter().filter(|v| !v.bad) {
        let mut r = Input { time: 0, ..Input::null() };
        let (mut output, mut cause) = (0, 0);
        for (name, text) in &v.fields {
            match name.as_str() {
                "key" => r.key = unquote(text),
                "value" => r.value = unquote(text),
                "time" => r.time = text.parse().unwrap_or(NO_TIME),
                "op" => {
                    r.op = [Op::Insert, Op::UpdateBefore, Op::UpdateAfter, Op::Delete][text.parse::<usize>().unwrap()]
                }
                "output" => output = text.parse().unwrap(),
                "cause" => cause = text.parse().unwrap(),
                "pos" => {
                    let (split, offset) = text.split_once('/').unwrap();
                    r.split = split.parse().unwrap();
                    r.offset = offset.parse().unwrap();
                }
                "header" => {
                    let (k, x) = text.split_once(' ').unwrap();
                    r.headers.push((unquote(k).unwrap(), unquote(x)));
                }
                other => panic!("{}: unknown field {other}", v.name),
            }
        }
        assert_eq!(encode_frame(&r, output, cause), v.bytes["hex"], "{}", v.name);
        let got = decode_frame(&v.bytes["hex"]);
        assert_eq!((got.output, got.record), (output, r), "{}", v.name);
    }
}

#[test]
fn rows() {
    for v in read("rows.txt") {
        let (_, types) = v.fields.iter().find(|f| f.0 == "types").expect("types");
        let types: Vec<FieldType> = types
            .split_whitespace()
            .map(|t| match t {
                "int64" => FieldType::Int64,
                "float64" => FieldType::Float64,
                "bool" => FieldType::Bool,
                "string" => FieldType::String,
                "bytes" => FieldType::Bytes,
                "timestamp" => FieldType::Timestamp,
                other => panic!("{}: type {other}", v.name),
            })
            .collect();
        let none = Vec::new();
        let bytes = v.bytes.get("hex").unwrap_or(&none);
        let row = Row::check(bytes, &types);
        if v.bad {
            assert!(row.is_err(), "{} is accepted", v.name);
            continue;
        }
        let row = row.unwrap_or_else(|e| panic!("{}: {e}", v.name));
        let texts: Vec<&str> = v.fields.iter().filter(|f| f.0 == "value").map(|f| f.1.as_str()).collect();
        let owned: Vec<Vec<u8>> =
            texts.iter().map(|t| if t.starts_with('"') { unquote(t).unwrap() } else { vec![] }).collect();
        let mut cells = Vec::new();
        for (i, (t, text)) in types.iter().zip(&texts).enumerate() {
            if *text == "null" {
                assert!(row.is_null(i), "{}: column {i}", v.name);
                cells.push(Cell::Null);
                continue;
            }
            cells.push(match t {
                FieldType::Int64 | FieldType::Timestamp => Cell::Int(text.parse().unwrap()),
                FieldType::Float64 => Cell::Float(text.parse().unwrap()),
                FieldType::Bool => Cell::Bool(text.parse().unwrap()),
                FieldType::String | FieldType::Bytes => Cell::Bytes(&owned[i]),
            });
            match cells[i] {
                Cell::Int(x) => assert_eq!(row.int(i), Some(x)),
                Cell::Float(x) => assert_eq!(row.float(i), Some(x)),
                Cell::Bool(x) => assert_eq!(row.bool(i), Some(x)),
                Cell::Bytes(x) => assert_eq!(row.bytes(i), Some(x)),
                _ => unreachable!(),
            }
        }
        assert_eq!(encode_row(&cells), *bytes, "{}", v.name);
    }
}

millrace::module! {
    name: "vectors",
    process counted keyed { on_record: counted, states: { seen: Value<u64> } },
}

fn counted(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let n = counted::seen.get(ctx)?.unwrap_or(0);
    counted::seen.set(ctx, &(n + 1))?;
    let wm = ctx.watermark();
    ctx.emit().time(wm).value(rec.value().unwrap_or(b""))
}

#[test]
fn blocks() {
    for v in read("blocks.txt") {
        let (out, after) = call(&MODULE, &v.bytes["block"]);
        assert_eq!(out, v.bytes["out"], "{}", v.name);
        assert_eq!(after, v.bytes["after"], "{}", v.name);
    }
}
