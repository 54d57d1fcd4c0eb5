-- The lanes that were closed longest, with their discarded and expired deliveries.
-- Parameters: the first day, the last day.
select topic, subscription, sum(blocked_ms) / 3.6e6 as closed_hours,
  sum(discarded + expired) as given_up, sum(retries) as retries
from delivery_report_hours
where dt between ? and ?
group by topic, subscription
having sum(blocked_ms) > 0
order by closed_hours desc, topic, subscription
limit 20
