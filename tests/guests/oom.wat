;; Grows its memory by 1 MiB at a time and touches all of it; when more is refused, it traps, as programs do that run
;; out of memory.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1 32768)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (func $out_of_memory (result i32) unreachable)
    (func $run (export "run") (param i32 i32) (result i32)
      (local $page i32)
      (loop $more
        (local.set $page (memory.grow (i32.const 16)))
        (if (i32.eq (local.get $page) (i32.const -1)) (then (return (call $out_of_memory))))
        (memory.fill (i32.shl (local.get $page) (i32.const 16)) (i32.const 7) (i32.const 0x100000))
        (br $more))
      unreachable)
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
