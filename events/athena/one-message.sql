-- The steps of each delivery of one message.
-- Parameters: the day of its acceptance, its id.
select distinct m.topic, s.subscription,
  (coalesce(d.last_attempt_at, d.changed_at) - m.accepted_at) / 1e3 as after_s,
  d.state, d.attempts, d.outcome, d.removed_by
from messages m
left join deliveries d on d.dt = m.dt and d.message_id = m.message_id
left join (select topic, ordinal, max(subscription) as subscription from subscriptions group by topic, ordinal) s
  on s.topic = m.topic and s.ordinal = d.ordinal
where m.dt = ? and m.message_id = ?
order by after_s, subscription, attempts
