package faulttest_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain lets more rows run at a time than there are cores: most of what they do is to wait for an answer that does not come. The
// command line's -parallel has the last word.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", fmt.Sprint(3*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
