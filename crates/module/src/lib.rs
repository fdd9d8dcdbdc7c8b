//! The lab module: [`mutua_lab::reply`] for a browser, compiled to WebAssembly.
//!
//! It imports nothing. A query and its reply are JSON in the module's memory: a page reserves room
//! with `room`, writes the query there, calls `reply`, and reads as many bytes as `reply_length`
//! gives from where `reply` points to. Each call of `room` ends the life of the last reply.

// Exported names are the whole interface of a module; no pointer is followed here.
#![allow(unsafe_code)]

use std::sync::Mutex;

/// The query that is being written, and the last reply.
static QUERY: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static REPLY: Mutex<String> = Mutex::new(String::new());

/// Reserves room for a query of this many bytes and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> usize {
    let mut query = locked(&QUERY);
    query.clear();
    query.resize(length, 0);
    query.as_ptr() as usize
}

/// Answers the query and returns the address of the reply.
#[unsafe(no_mangle)]
pub extern "C" fn reply() -> usize {
    let query = std::mem::take(&mut *locked(&QUERY));
    let query = String::from_utf8_lossy(&query);
    let mut reply = locked(&REPLY);
    *reply = mutua_lab::reply::reply_json(&query);
    reply.as_ptr() as usize
}

/// The length of the reply in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn reply_length() -> usize {
    locked(&REPLY).len()
}

/// There is one thread, and a panic ends the module, so no lock is ever poisoned.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
