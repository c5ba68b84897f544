-- Timers of one time fire in the order they were set: the order of their rowids, which stand behind each key of an
-- index for nothing. VACUUM may give them other numbers, yet copies them in their order.
DROP INDEX timer_due;
CREATE INDEX timer_due ON timer (due_at);
