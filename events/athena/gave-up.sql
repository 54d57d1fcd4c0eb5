-- The subscriptions with the most discarded and expired deliveries of a day, with the last outcomes.
-- Parameter: the day of acceptance.
select d.topic, s.subscription, d.state, coalesce(d.outcome, 'never attempted') as outcome,
  count(*) as given_up, max(d.attempts) as attempts_most
from deliveries d
left join (select topic, ordinal, max(subscription) as subscription from subscriptions group by topic, ordinal) s
  on s.topic = d.topic and s.ordinal = d.ordinal
where d.dt = ? and d.state in ('discarded', 'expired')
group by d.topic, d.ordinal, s.subscription, d.state, coalesce(d.outcome, 'never attempted')
order by given_up desc, topic, subscription, state, outcome
limit 20
