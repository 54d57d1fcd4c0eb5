-- Counts and latencies of a topic by hour. The latencies are those of its slowest subscription.
-- Parameters: the topic, the first day, the last day.
select dt, cast(mod(hour, 86400000) / 3600000 as integer) as hour_of_day, max(accepted) as accepted,
  sum(matched) as matched, sum(delivered) as delivered, sum(discarded + expired) as given_up, sum(pending) as pending,
  max(end_to_end_ms_p50) as end_to_end_ms_p50, max(end_to_end_ms_p99) as end_to_end_ms_p99
from delivery_report_hours
where topic = ? and dt between ? and ?
group by dt, hour
order by dt, hour_of_day
