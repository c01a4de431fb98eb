;; Asks the host for what its input says: a host call that misbehaves, which only the tests' own program offers. Returns ok("null").
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (import "atropos:mischief/escape@0.1.0" (instance $escape
    (export "do" (func (param "what" string)))))
  (core module $memory
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: there is only the input.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
  )
  (core instance $memory (instantiate $memory))
  (core func $do (canon lower (func $escape "do") (memory (core memory $memory "memory"))))
  (core module $guest
    (import "memory" "memory" (memory 1))
    (import "host" "do" (func $do (param i32 i32)))
    (data (i32.const 64) "\00\00\00\00" "\80\00\00\00" "\04\00\00\00")
    (data (i32.const 128) "null")
    (func $run (export "run") (param $text i32) (param $length i32) (result i32)
      (call $do (local.get $text) (local.get $length))
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest
    (with "memory" (instance $memory))
    (with "host" (instance (export "do" (func $do))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
)
