//! What the questions about the flights need beyond what is built in. Every answer is a JSON object with the
//! columns of its question.

use millrace::prelude::*;

mod busiest;
mod extreme;
mod first;
mod growing;
mod histogram;
mod turnaround;

pub(crate) const HOUR_MS: i64 = 60 * 60 * 1000;
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;

/// The final watermark: a timer at this time fires when the input has ended.
pub(crate) const END: i64 = i64::MAX;

millrace::module! {
    name: "questions",
    process first_delayed keyed {
        on_record: first::on_flight,
        on_timer: first::on_day_end,
        input: { date: timestamp, destination: string, delay: int64, distance: int64 },
        states: { days: Map<i64, Vec<u8>> }, // the day's first flight so far
        timers: [event],
    },
    process podium keyed {
        on_record: busiest::on_count,
        on_timer: busiest::on_day_end,
        input: { window_end: timestamp, origin: string, flights: int64 },
        states: { flights: Map<str, i64> },
        timers: [event],
    },
    flat_map turns {
        on_record: turnaround::on_flight,
        input: { date: timestamp, origin: string, destination: string },
        output: { airport: string, date: timestamp, back: bool },
    },
    process pairs keyed {
        on_record: turnaround::on_turn,
        on_timer: turnaround::on_end,
        input: { airport: string, date: timestamp, back: bool },
        states: { outs: Map<i64, i64>, backs: Map<i64, i64> }, // flights by time of departure
        timers: [event],
    },
    flat_map buckets {
        on_record: histogram::on_flight,
        input: { date: timestamp, delay: int64 },
        output: { month: int64, bucket: int64 },
    },
    process tally keyed {
        on_record: histogram::on_bucket,
        on_timer: histogram::on_end,
        input: { month: int64, bucket: int64 },
        states: { count: Value<histogram::Count> },
        timers: [event],
    },
    flat_map slots {
        on_record: extreme::on_flight,
        input: { date: timestamp, origin: string, destination: string, delay: int64, distance: int64 },
        output: { start: timestamp, date: timestamp, origin: string, destination: string, delay: int64, distance: int64 },
    },
    process worst keyed {
        on_record: extreme::on_slot,
        on_timer: extreme::on_slot_end,
        input: { start: timestamp, date: timestamp, origin: string, destination: string, delay: int64, distance: int64 },
        states: { best: Value<Vec<u8>> },
        timers: [event],
    },
    process triples keyed {
        on_record: growing::on_flight,
        on_timer: growing::on_time,
        input: { date: timestamp, destination: string, delay: int64, distance: int64 },
        states: { waiting: Map<[u8], i64>, last: Value<growing::Last> }, // by order of departure: how many
        timers: [event],
    },
}

/// Text and numbers as bytes that sort as they do: signed numbers with the sign turned, text ended by 0.
pub(crate) struct Sortable(pub Vec<u8>);

impl Sortable {
    pub(crate) fn new() -> Sortable {
        Sortable(Vec::with_capacity(40))
    }

    pub(crate) fn int(mut self, v: i64) -> Sortable {
        self.0.extend_from_slice(&((v as u64) ^ 1 << 63).to_be_bytes());
        self
    }

    /// Airport codes have no zero byte.
    pub(crate) fn text(mut self, v: &str) -> Sortable {
        self.0.extend_from_slice(v.as_bytes());
        self.0.push(0);
        self
    }
}

/// Reads what Sortable wrote.
pub(crate) struct Sorted<'a>(pub &'a [u8]);

impl<'a> Sorted<'a> {
    pub(crate) fn int(&mut self) -> Result<i64> {
        if self.0.len() < 8 {
            bail!("a stored flight is too short");
        }
        let (head, rest) = self.0.split_at(8);
        self.0 = rest;
        let mut b = [0; 8];
        b.copy_from_slice(head);
        Ok((u64::from_be_bytes(b) ^ 1 << 63) as i64)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let n = self.0.iter().position(|&b| b == 0).ok_or_else(|| Error::msg("a stored text has no end"))?;
        let text = core::str::from_utf8(&self.0[..n]).map_err(|_| Error::msg("a stored text is not UTF-8"))?;
        self.0 = &self.0[n + 1..];
        Ok(text)
    }
}

/// A column that no flight lacks.
pub(crate) fn need<T>(v: Option<T>) -> Result<T> {
    v.ok_or_else(|| Error::msg("a flight lacks a column"))
}

#[cfg(test)]
mod tests;
