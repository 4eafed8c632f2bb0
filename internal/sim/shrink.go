package sim

import "regexp"

// Shrink makes a failing program smaller for as long as it breaks the same rule. run runs a program and says which
// rule it breaks first; "" = none. tries is how many programs are run at most.
func Shrink(p Program, rule string, tries int, run func(Program) string) Program {
	// A smaller program meets another schedule under its seed: a few of them are tried.
	breaks := func(q Program) (Program, bool) {
		for i := uint64(0); i < 4 && tries > 0; i++ {
			tries--
			if q.Seed = p.Seed + i; run(q) == rule {
				return q, true
			}
		}
		return q, false
	}
	for smaller := true; smaller && tries > 0; {
		smaller = false
		for size := max(len(p.Ops)/2, 1); size > 0; size /= 2 {
			for at := 0; at+size <= len(p.Ops); {
				q := p
				q.Ops = append(append([]Op{}, p.Ops[:at]...), p.Ops[at+size:]...)
				if q, ok := breaks(q); ok {
					p, smaller = q, true
					continue
				}
				at += size
			}
		}
		for _, q := range simpler(p) {
			if q, ok := breaks(q); ok {
				p, smaller = q, true
				break
			}
		}
	}
	return p
}

// simpler are programs that differ from one in a number that is smaller, or a switch that is off.
func simpler(p Program) (out []Program) {
	change := func(f func(*Program)) {
		q := p
		q.Ops = append([]Op{}, p.Ops...)
		f(&q)
		out = append(out, q)
	}
	if p.Persisters > 1 {
		change(func(q *Program) { q.Persisters-- })
	}
	if p.Agents > 1 {
		change(func(q *Program) { q.Agents-- })
	}
	if !p.Free {
		change(func(q *Program) { q.Free = true })
	}
	for i, o := range p.Ops {
		edit := func(f func(*Op)) { change(func(q *Program) { f(&q.Ops[i]) }) }
		if o.N > 1 {
			edit(func(o *Op) { o.N /= 2 })
			edit(func(o *Op) { o.N-- })
		}
		if o.Size > 0 {
			edit(func(o *Op) { o.Size = 0 })
		}
		if o.Split {
			edit(func(o *Op) { o.Split = false })
		}
		if o.Kind > 0 && o.ofAgent() {
			edit(func(o *Op) { o.Kind = 0 })
		}
		if o.As > 0 {
			edit(func(o *Op) { o.As = 0 })
		}
		if o.Again {
			edit(func(o *Op) { o.Again = false })
		}
	}
	return out
}

var numbers = regexp.MustCompile(`s[0-9]+/[a-z]+|[0-9a-f]{12,}|<[^>]*>|\[[^\]]*\]|[0-9]+|"[^"]*"`)

// Rule is the broken rule without the names and numbers of the run that broke it.
func Rule(broken []string) string {
	if len(broken) == 0 {
		return ""
	}
	s := numbers.ReplaceAllString(broken[0], "#")
	return s[:min(len(s), 50)]
}
