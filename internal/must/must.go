// Package must is for steps of a test that cannot fail unless the test is over: it ends it with the error. Same and Is
// tell of what is not as it should be, and the test goes on.
package must

import (
	"errors"
	"iter"
	"slices"
	"time"
)

// Patience is how long something that must happen may take: machines that run tests are slow at times.
const Patience = 90 * time.Second

// T is what of a test, a benchmark or a property is needed here.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Do ends the test on an error.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get gives the value of a call, or ends the test with its error: v := must.Get(f())(t).
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Two is Get for a call of two values.
func Two[A, B any](a A, b B, err error) func(T) (A, B) {
	return func(t T) (A, B) {
		t.Helper()
		Do(t, err)
		return a, b
	}
}

// All ranges over values, and ends the test with the first error.
func All[V any](t T, values iter.Seq2[V, error]) iter.Seq[V] {
	return func(yield func(V) bool) {
		t.Helper()
		for v, err := range values {
			Do(t, err)
			if !yield(v) {
				return
			}
		}
	}
}

// Same tells of a value that is not the wanted one. The last two verbs of the format are of the two.
func Same[V comparable](t T, got, want V, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(format, append(args, got, want)...)
	}
}

// SameAll is Same for lists.
func SameAll[V comparable](t T, got, want []V, format string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf(format, append(args, got, want)...)
	}
}

// Is tells of an error that is not the wanted one; what was done is a format and its arguments.
func Is(t T, err, want error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf(what+" = %v, want %v", append(args, err, want)...)
	}
}

// Err is the error of a call that also gives a value.
func Err[V any](_ V, err error) error { return err }

// Eventually tries until something succeeds, and ends the test where it does not within Patience.
func Eventually(t T, what string, try func() error) {
	t.Helper()
	if err := Poll(try); err != nil {
		t.Fatalf("%s: not within %v: %v", what, Patience, err)
	}
}

// Until waits for what no channel tells of.
func Until(t T, what string, is func() bool) {
	t.Helper()
	Eventually(t, what, func() error {
		if !is() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// Poll tries until something succeeds, and gives the last error when it does not within Patience. It rests four times as long as
// a try takes, a second at most: what it waits for needs the processor.
func Poll(try func() error) error {
	rest := time.Millisecond
	for begun := time.Now(); ; rest = min(2*rest, 20*time.Millisecond) {
		tried := time.Now()
		err := try()
		if err == nil || time.Since(begun) > Patience {
			return err
		}
		time.Sleep(min(max(rest, 4*time.Since(tried)), time.Second))
	}
}

// Receive gives what comes, and ends the test with what was said where nothing comes within Patience.
func Receive[V any](t T, from <-chan V, said string, args ...any) (v V) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		t.Fatalf(said, args...)
	}
	return v
}
