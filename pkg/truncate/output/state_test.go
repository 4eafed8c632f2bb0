package output_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/truncate/output"
)

// TestSinkResumes: a Sink that is stored and resumed between any two chunks gives the same summary, live text and artifact
// as one that never was (SPEC O7).
func TestSinkResumes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		threshold := rapid.SampledFrom([]int{1, 8, 40}).Draw(r, "threshold")
		cfg := output.Config{Threshold: threshold, Head: rapid.IntRange(0, threshold).Draw(r, "head"),
			Columns: rapid.SampledFrom([]int{0, 7}).Draw(r, "columns")}
		chunks := rapid.SliceOfN(streams, 0, 8).Draw(r, "chunks")
		var plain, resumed artifact
		one, other := cfg, cfg
		one.Artifact, other.Artifact = plain.begin, resumed.begin
		a, b := output.NewSink(one), output.NewSink(other)
		var liveA, liveB string
		for i, c := range chunks {
			write := (*output.Sink).Write
			if i%3 == 1 {
				write = (*output.Sink).WriteErr
			}
			liveA, liveB = liveA+string(write(a, c)), liveB+string(write(b, c))
			state, err := b.MarshalBinary()
			must.Do(r, err)
			if b, err = output.Resume(other, state, &resumed); err != nil {
				r.Fatalf("Resume = %v", err)
			}
			if whole, ok := b.Whole(); ok && string(whole) != liveB || b.Total() != int64(len(liveB)) {
				r.Fatalf("Whole = %q, %v, Total = %d after %q", whole, ok, b.Total(), liveB)
			}
		}
		sumA, restA := a.Close()
		sumB, restB := b.Close()
		if d := cmp.Diff(sumA, sumB, cmpopts.EquateErrors()); d != "" {
			r.Errorf("summary (-never stored +resumed):\n%s", d)
		}
		if liveA+string(restA) != liveB+string(restB) {
			r.Errorf("live = %q, want %q", liveB+string(restB), liveA+string(restA))
		}
		if plain.String() != resumed.String() || plain.committed != resumed.committed {
			r.Errorf("artifact = %q, want %q", resumed.String(), plain.String())
		}
	})
}

// Each stream is sanitized on its own: half a character or sequence of one does not meet the other.
func TestSinkStreams(t *testing.T) {
	s := output.NewSink(output.Config{})
	for i, piece := range []string{"a\xe6\xbc", "E1\x1b[3", "\xa2b", "1mE2"} {
		if i%2 == 0 {
			s.Write([]byte(piece))
		} else {
			s.WriteErr([]byte(piece))
		}
	}
	if sum, _ := s.Close(); sum.Output != "aE1漢bE2" {
		t.Errorf("Output = %q", sum.Output)
	}
}

// An artifact that is lost while its output was stored is told, and the output goes on.
func TestSinkResumesWithoutArtifact(t *testing.T) {
	var a artifact
	cfg := output.Config{Threshold: 4, Artifact: a.begin}
	s := output.NewSink(cfg)
	s.Write([]byte("123456"))
	state, _ := s.MarshalBinary()
	resumed := must.Get(output.Resume(cfg, state, nil))(t)
	resumed.Write([]byte("78"))
	sum, _ := resumed.Close()
	if sum.Output != "5678" || sum.ArtifactError == nil || sum.ArtifactID != "" {
		t.Errorf("summary = %+v, want the tail and why there is no artifact", sum)
	}
	lost, _ := output.Resume(cfg, state, &a)
	lost.Lose(errDisk)
	state, _ = lost.MarshalBinary()
	again := must.Get(output.Resume(cfg, state, nil))(t)
	if sum, _ := again.Close(); sum.ArtifactError == nil || sum.ArtifactError.Error() != errDisk.Error() || !a.aborted {
		t.Errorf("summary = %+v, artifact aborted %v", sum, a.aborted)
	}
}

func FuzzResume(f *testing.F) {
	var a artifact
	cfg := output.Config{Threshold: 10, Head: 3, Columns: 5, Artifact: a.begin}
	for _, text := range []string{"", "12\x1b[3", "12345678901234567890\n\xe6", "\x1bPabc"} {
		s := output.NewSink(cfg)
		s.Write([]byte(text))
		state, _ := s.MarshalBinary()
		f.Add(state)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		s, err := output.Resume(cfg, state, &artifact{})
		if err != nil {
			must.Is(t, err, output.ErrState, "Resume")
			return
		}
		s.Write([]byte("more\nand \x1b[1m more"))
		s.Close()
	})
}
