;; Prints "Hello,\nworld" to its standard output, waits on a pollable, then returns ok("null").
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $s (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $s)))
    (type $f (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $f)))))
  (alias export $failures "failure" (type $failure))
  (import "wasi:io/poll@0.2.6" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:io/error@0.2.6" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error))
  (import "wasi:io/streams@0.2.6" (instance $streams
    (export "output-stream" (type $stream (sub resource)))
    (alias outer 1 $error (type $e))
    (export "error" (type $error (eq $e)))
    (type $x (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $x)))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $stream)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $stream))
  (import "wasi:cli/stdout@0.2.6" (instance $stdout
    (alias outer 1 $stream (type $s))
    (export "output-stream" (type $stream (eq $s)))
    (export "get-stdout" (func (result (own $stream))))))
  (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
    (alias outer 1 $pollable (type $p))
    (export "pollable" (type $pollable (eq $p)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
  (core module $memory
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096)))
  (core instance $memory (instantiate $memory))
  (core func $get-stdout (canon lower (func $stdout "get-stdout")))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory (core memory $memory "memory"))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core func $block (canon lower (func $poll "[method]pollable.block")))
  (core module $guest
    (import "memory" "memory" (memory 1))
    (import "host" "get-stdout" (func $get-stdout (result i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
    (import "host" "block" (func $block (param i32)))
    (data (i32.const 64) "\00\00\00\00" "\80\00\00\00" "\04\00\00\00")
    (data (i32.const 128) "null")
    (data (i32.const 192) "Hello,\0aworld")
    (func $run (export "run") (param i32 i32) (result i32)
      (call $write (call $get-stdout) (i32.const 192) (i32.const 12) (i32.const 16))
      (call $block (call $subscribe (i64.const (;NANOSECONDS;))))
      (i32.const 64)))
  (core instance $guest (instantiate $guest
    (with "memory" (instance $memory))
    (with "host" (instance
      (export "get-stdout" (func $get-stdout))
      (export "write" (func $write))
      (export "subscribe" (func $subscribe))
      (export "block" (func $block))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))
