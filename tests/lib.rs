//! The tests live in `it/`: one binary, one module for each feature. Here only the README's programs are compiled.

#![cfg_attr(doctest, doc = include_str!("../README.md"))]
