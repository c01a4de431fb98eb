;; Makes a resource of its own whose destructor loops, and returns without dropping it.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $things
    (func $destroy (export "destroy") (param i32) (loop $forever (br $forever)))
  )
  (core instance $things (instantiate $things))
  (type $thing (resource (rep i32) (dtor (core func $things "destroy"))))
  (core func $new (canon resource.new $thing))
  (core module $guest
    (import "thing" "new" (func $new (param i32) (result i32)))
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    ;; ok("null"), as it lies in memory: a tag, then the place and the length of the text.
    (data (i32.const 64) "\00\00\00\00" "\80\00\00\00" "\04\00\00\00")
    (data (i32.const 128) "null")
    (func $run (export "run") (param i32 i32) (result i32)
      (drop (call $new (i32.const 1)))
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest
    (with "thing" (instance (export "new" (func $new))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
