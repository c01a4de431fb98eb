;; Makes resources of its own for ever and drops none: the table of handles grows in the host.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (type $thing (resource (rep i32)))
  (core func $new (canon resource.new $thing))
  (core module $guest
    (import "thing" "new" (func $new (param i32) (result i32)))
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (func $run (export "run") (param i32 i32) (result i32)
      (loop $forever
        (drop (call $new (i32.const 1)))
        (br $forever))
      unreachable)
  )
  (core instance $guest (instantiate $guest
    (with "thing" (instance (export "new" (func $new))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
