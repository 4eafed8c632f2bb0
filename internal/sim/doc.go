// Package sim runs the whole of Spool in one process, in virtual time, over a JetStream in memory
// (internal/memjs), and lets a number decide what happens when: one seed is one schedule, and it can be played
// again. It searches for what nobody thought of.
//
//	seed ─▶ Generate ─▶ Program ─▶ Run: driver ─▶ agents, persisters, operators, readers ─▶ memjs
//	                       ▲                                                                  │ all that was ever stored
//	                     Shrink ◀── broken rules ◀── oracle ◀── model ◀──────────────────────┘
//	                                                  ▲ ledger: what agents were told
//
// # What is real
//
// Publishers, Async, Output, runs, prompts, forks, renames, removals, deletions, artifacts, subscriptions and the
// offline directory of pkg/client; persisters with their consumers, commit lanes, leases and caches; gc with
// repacks and quarantine; retention; fsck and its repair; nats.go. Persisters are wired here as internal/service
// does it, but ask only for the partitions that a program's sessions are in. What watches for a server that was
// set back runs in programs that crash it. Backup runs beside everything; the restore, into another store, at the
// end. The history of prompts is fed. Not run here: HTTP, the page, importers, labels and branches (the dialect omp),
// crashes that lose what was not synced.
//
// # What is modelled
//
// The server (package memjs). Time (testing/synctest): it stands still while anybody works. Processes: a name at
// the server, a connection and a context. One that is killed is not heard again and what it had sent is lost; one
// that stands still, as by SIGSTOP, is neither read nor answered, while its own timers go on. What is on its disk
// survives. A large server is not modelled: few sessions, threads, producers, because what meets is what breaks.
//
// # Who decides
//
// The driver waits until every goroutine of the bubble is blocked. Then the seed chooses: the next operation of
// the program begins, or the server takes a connection's next command, hands out its next message, or fires a
// timer; or time passes. In programs that are Free the server answers at once, and the seed decides only when
// operations begin: that is ten times cheaper. Faults are operations too: of messages (faults.go), and of processes,
// which are slow, or wait or die at a step or with a message (pace.go). What chance rarely makes is a scene
// (scenes.go): the operations that lead to a situation. When the program has ended faults end,
// somebody is made to run, and the system must come to rest.
//
// When all is quiet, streams are as they will stay: the oracle reads over a server that answers at once.
//
// # Why a seed replays exactly
//
// The command builds with replacements (testdata/replay, given to the compiler as an overlay) of what a runtime
// decides by chance or by the real clock: orders of maps and selects, which of two timers of one time fires first,
// seeds of hashes, the numbers of math/rand; time slices, system calls that lose their processor, mutexes that were
// waited for too long. In a bubble all that follows from the seed and the step, on one processor, and garbage is
// collected between schedules. What ids are made of is seeded too, and what packages keep for a process is forgotten
// (chance.go). TestSeedsReplay compares traces to the byte, over two processes. About one schedule in some hundred
// still differs from one run to the next, and not each time; by what is not known. Addresses decide the order of maps
// of more than 8 keys that are pointers, and an operation on a file may take more than a second.
//
// A plain "go test" has none of this: there a failure that does not come back at once comes back within a few tries.
// Another version of Go, in which the replaced text is not found, is told; schedules then run as in a plain test.
//
// # What must hold
//
// The model (model.go) reads SPOOL_EVENTS in order and says what each thread holds, what belongs in the dead
// letters, and what nobody has to apply because its producer was told so. The oracle (oracle.go) compares: every
// acknowledged entry is accounted for (SPEC P1), no sequence names two events (P3), threads hold what they must in
// their order, items are 1, 2, 3, … and what the nodes give, readers get each item of each life once and in order,
// artifacts have their bytes and numbers of their own, one answer counts, what is taken back is whole, what is
// restored is what was backed up, the history has each prompt once, a session's record counts its threads, fsck finds
// nothing, also of events (fsck --events), gc misses nothing.
//
// # How to use it
//
//	go test ./internal/sim                                        some schedules
//	go run ./internal/sim/cmd/sim -count 20000                    many, in a process a core
//	go run ./internal/sim/cmd/sim -count 0 -budget 8h -all        a night
//	go run ./internal/sim/cmd/sim -about sweep -stats             about one thing; which messages failed how
//	go run ./internal/sim/cmd/sim -seed N -- -shrink 300          one, its trace, the least program that breaks the rule
//	go run ./internal/sim/cmd/sim -replay 50                      are seeds exact?
//	go run ./internal/sim/cmd/sim -count 2000 -profile FILE       where does the time go?
//	go test ./internal/sim -run TestSeed -program FILE -logs      a program, with what the processes log
//
// A schedule is about 720 operations of the server: commands and timers that it executes, messages for clients.
//
// # How to add a defect
//
// A file in testdata/mutants holds a sentence, and texts to replace (Mutant). It is given to the compiler as an
// overlay; production code has no hook for it. "go run ./internal/sim/cmd/sim -mutants NAME" says after how many
// schedules it is found; a schedule that fails without it too does not count. With -compile it says only whether the
// defect can be put in.
//
// # How to add a case
//
// What broke a rule once is a file in testdata/programs: the program, and in its member "what" the defect in a
// sentence. "open": the defect is not mended; TestPrograms then says whether it still shows. What ends the whole
// process cannot wait there while it is open: give it to -program.
package sim
