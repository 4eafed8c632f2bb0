package claudestore

// Bound sets how much is remembered.
func (s *Store) Bound(states, ids int) { s.mostStates, s.mostIDs = states, ids }

// Known is how much is remembered.
func (s *Store) Known() (states, ids int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states), s.ids
}
