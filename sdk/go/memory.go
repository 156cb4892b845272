package millrace

// stream is what goes over from one instance with Memory to that of another module, made or read as a whole.
type stream struct {
	bytes []byte
	at    int
	made  bool
}

// save fills buf with the next part of what Save returned; 0: there is no more.
func (s *stream) save(m *Module, buf []byte) int32 {
	if m == nil || m.Save == nil {
		return -1
	}
	if !s.made {
		s.bytes, s.made = m.Save(), true
	}
	n := copy(buf, s.bytes[s.at:])
	s.at += n
	return int32(n)
}

// load takes a part; the empty one at the end gives all to Load. 0 is good.
func (s *stream) load(m *Module, part []byte) int32 {
	if m == nil || m.Load == nil {
		return 1
	}
	if len(part) > 0 {
		s.bytes = append(s.bytes, part...)
		return 0
	}
	all := s.bytes
	s.bytes = nil
	if err := m.Load(all); err != nil {
		hostFail(err.Error()) // ends the call
		return 1
	}
	return 0
}
