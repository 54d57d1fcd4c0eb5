-- The tags of messages that no subscription matched.
-- Parameters: the first day, the last day.
select topic, array_join(tags, ', ') as tags, count(*) as messages
from messages
where dt between ? and ? and cardinality(matched) = 0
group by topic, array_join(tags, ', ')
order by messages desc, topic, tags
limit 100
