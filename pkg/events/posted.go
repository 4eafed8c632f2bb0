package events

// Posted is an item as it stands in ITEMS: stamped, within the budget, with its subject.
type Posted struct {
	Subject string
	N       int64  // number of the item in its thread, from 1, without gaps
	Data    []byte // JSON, at most 350,000 bytes as Python's json.dumps prints it (SPEC I4)
	Life    uint64 // which of the threads that had its name: threads.Head.Life
	Trace   string // traceparent of the event that it comes from; "" = none, and of every item that is made again
}

// Dead is an event that could not be applied, with what is known about it (SPEC B1).
type Dead struct {
	Thread  Thread // as far as it could be read
	Kind    string
	Subject string // as EVENTS stored it
	Seq     uint64 // EVENTS sequence
	Alone   bool   // its message holds no other event, as somebody saw
	Unread  bool   // nobody looked whether its thread has it
	Apart   bool   // Data goes to the inbox, as where it does not fit
	Stored  int64  // when the event was stored, by the server's clock, Unix nanoseconds; 0: unknown
	Data    []byte // the message as it came
	Reason  string // what was wrong, where, and what to do
}
