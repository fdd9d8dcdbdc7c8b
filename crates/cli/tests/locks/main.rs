//! The commands on locks and nodes, with real processes: each test has a node of its own.
//!
//! One binary, so that the harness is compiled and linked once. Tests that need the machine to
//! themselves (`thousand`), namespaces (`scope`) or an etcd (`etcd`) are binaries of their own.

mod cluster;
mod command;
mod copied_member;
mod elect;
mod endpoint;
mod etcd_leases;
mod etcd_recipes;
mod faults;
mod flock;
mod hold;
mod identity;
mod library;
mod link;
mod membership;
mod nodes;
mod other_servers;
mod restart;
mod rules;
mod scene;
mod terminal;
mod trial;
mod unknown;
mod versions;
mod wait;
