;; Makes one call into an interface of WASI, and expects not to come back from it.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $s (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $s)))
    (type $f (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $f)))))
  (alias export $failures "failure" (type $failure))
  (import "INTERFACE" (instance $wasi (export "FUNCTION" (func TYPE))))
  (core module $memory
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096)))
  (core instance $memory (instantiate $memory))
  (core func $call (canon lower (func $wasi "FUNCTION")
    (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core module $guest
    (import "wasi" "call" (func $call PARAMS))
    (func $run (export "run") (param i32 i32) (result i32) (call $call ARGUMENTS) unreachable))
  (core instance $guest (instantiate $guest (with "wasi" (instance (export "call" (func $call))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))
